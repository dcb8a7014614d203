// Objects that tasks running side by side borrow one at a time, so that scratch memory is made once.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace poslab {

template <class Value>
class Pool {
 public:
  // Borrows the object that came back last, still warm in the caches, or a new one; returns it at its end.
  class Lease {
   public:
    explicit Lease(Pool& pool) : pool_(pool), value_(pool.take()) {}
    ~Lease() { pool_.give(std::move(value_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Value& operator*() { return *value_; }
    Value* operator->() { return value_.get(); }

   private:
    Pool& pool_;
    std::unique_ptr<Value> value_;
  };

 private:
  std::unique_ptr<Value> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Value>();
    std::unique_ptr<Value> last = std::move(free_.back());
    free_.pop_back();
    return last;
  }
  void give(std::unique_ptr<Value> value) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(value));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Value>> free_;
};

}  // namespace poslab
