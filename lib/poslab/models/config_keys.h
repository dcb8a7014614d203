// Typed access to the keys of a checkpoint's config.json; errors name the file and the key.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "poslab/core/fields.h"

namespace poslab {

class ConfigKeys {
 public:
  using json = nlohmann::json;

  ConfigKeys(const json& config, const std::string& path) : config_(config), path_(path) {}

  const json& all() const { return config_; }
  const std::string& path() const { return path_; }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(fmt::format("[checkpoint] {}: {}.", path_, what));
  }
  // Null counts as absent.
  const json* find(const char* key) const {
    const auto found = config_.find(key);
    return found == config_.end() || found->is_null() ? nullptr : &*found;
  }
  std::int64_t integer(const char* key, std::optional<std::int64_t> fallback = std::nullopt) const {
    const json* value = find(key);
    if (value && value->is_number_unsigned() && value->get<std::uint64_t>() > INT64_MAX) {
      fail(fmt::format("{} is {}, too large", key, value->get<std::uint64_t>()));
    }
    return get<std::int64_t>(key, fallback, &json::is_number_integer, "an integer");
  }
  // By the first of its names that is there.
  std::int64_t integer(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (find(name)) return integer(name);
    }
    return integer(*names.begin());
  }
  double real(const char* key, std::optional<double> fallback = std::nullopt) const {
    return get<double>(key, fallback, &json::is_number, "a number");
  }
  bool boolean(const char* key, std::optional<bool> fallback = std::nullopt) const {
    return get<bool>(key, fallback, &json::is_boolean, "true or false");
  }
  std::string text(const char* key, std::optional<std::string> fallback = std::nullopt) const {
    return get<std::string>(key, fallback, &json::is_string, "text");
  }
  template <Word E>
  E word(const char* key) const {
    const std::string given = text(key);
    for (const std::string& word : all_words<E>()) {
      if (word == given) return from_word<E>(word);
    }
    fail(fmt::format("{} '{}' is not known", key, given));
  }
  // A field under its own name, where the config has it.
  template <class F>
  void read_field(const std::string& name, F& value) const {
    using Item = typename detail::Element<F>::type;
    const char* key = name.c_str();
    if (!find(key)) return;
    if constexpr (std::is_same_v<Item, bool>) {
      value = boolean(key);
    } else if constexpr (std::is_same_v<Item, std::int64_t>) {
      value = integer(key);
    } else if constexpr (std::is_same_v<Item, double>) {
      value = real(key);
    } else {
      value = word<Item>(key);
    }
  }
  // For switches that change what a model computes in ways that poslab has not.
  void require_false(const char* key) const {
    if (boolean(key, false)) fail(fmt::format("{} true is not supported", key));
  }
  void require_true(const char* key) const {
    if (!boolean(key, true)) fail(fmt::format("{} false is not supported", key));
  }
  void require_absent(const char* key) const {
    if (find(key)) fail(fmt::format("{} is not supported", key));
  }

 private:
  template <class V>
  V get(const char* key, const std::optional<V>& fallback, bool (json::*is)() const noexcept, const char* kind) const {
    const json* value = find(key);
    if (!value && fallback) return *fallback;
    if (!value) fail(fmt::format("{} is missing", key));
    if (!(value->*is)()) fail(fmt::format("{} must be {}", key, kind));
    return value->get<V>();
  }

  const json& config_;
  const std::string& path_;
};

}  // namespace poslab
