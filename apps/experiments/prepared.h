// What the points of a sweep share: a loaded model, a measured control. Made by whoever needs it first, freed with the
// sweep.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <typeindex>
#include <utility>

namespace poslab {

class Prepared {
 public:
  // The T of this key: what `make` returns, or what it returned for the same key before. One T is kept at a time, so
  // that a sweep over models holds one of them. Points that run side by side wait for the first; what throws is not
  // kept.
  template <class T, class Make>
  std::shared_ptr<const T> get(const std::string& key, const Make& make) {
    const std::shared_ptr<Slot> slot = slot_of(typeid(T));
    const std::lock_guard making(slot->making);
    if (!slot->value || slot->key != key) {
      slot->value.reset();
      slot->value = std::make_shared<const T>(make());
      slot->key = key;
    }
    return std::static_pointer_cast<const T>(slot->value);
  }

 private:
  struct Slot {
    std::mutex making;
    std::string key;
    std::shared_ptr<const void> value;
  };

  std::shared_ptr<Slot> slot_of(std::type_index type) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Slot>& slot = slots_[type];
    if (!slot) slot = std::make_shared<Slot>();
    return slot;
  }

  std::mutex mutex_;
  std::map<std::type_index, std::shared_ptr<Slot>> slots_;
};

}  // namespace poslab
