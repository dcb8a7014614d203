// A parsed config.json as its readers see it: typed access by key path, errors that name the key, warnings. Internal to
// hf_config and to the families' own rules.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "poslab/model_configs/family.h"

namespace poslab {

// A value and the key path or rule it came from.
struct Given {
  nlohmann::json value;
  std::string source;
};

// The parameters of one RoPE set by their Hugging Face names.
using RopeSet = std::map<std::string, Given, std::less<>>;

template <class T>
struct Sourced {
  T value;
  std::string source;
};

// What every set of a config shares.
struct HfSizes {
  std::optional<Sourced<std::int64_t>> hidden, heads, max_positions;
};

// As Python's bool(...): what `rope_scaling or rope_parameters` looks at.
bool truthy(const nlohmann::json& v);

// A value of the file as it stands there, short enough for a one-line message.
std::string shown(const nlohmann::json& v);

const nlohmann::json& object_or_empty(const nlohmann::json* v);

class ConfigText {
 public:
  using json = nlohmann::json;

  // Enters the text part of a multimodal config, reads model_type and finds its family; another is read as Llama's,
  // with a warning. The config must outlive it.
  ConfigText(const json& config, std::string_view name);
  ConfigText(const ConfigText&) = delete;
  ConfigText& operator=(const ConfigText&) = delete;

  template <class... A>
  [[noreturn]] void fail(fmt::format_string<A...> text, A&&... args) const {
    const std::string line = fmt::format(text, std::forward<A>(args)...);
    throw std::invalid_argument(fmt::format("[model_config] {}: {}{}", name_, line, line.ends_with('?') ? "" : "."));
  }

  template <class... A>
  void warn(fmt::format_string<A...> text, A&&... args) {
    add_once(warnings_, fmt::format(text, std::forward<A>(args)...));
  }

  void ignore(std::string path) { add_once(ignored_, std::move(path)); }

  // The value at a top-level key, or at "outer.inner"; nullptr when absent.
  const json* top(std::string_view key) const;
  std::string path(std::string_view key) const { return prefix_ + std::string(key); }
  std::string class_default() const { return fmt::format("class default ({})", family().model_type); }
  double number(const json& v, std::string_view where) const;
  std::int64_t positive_integer(const json& v, std::string_view where) const;
  bool boolean(std::string_view key, bool fallback) const;
  // The first of the keys that has a value; else the class default (0: none).
  std::optional<Sourced<std::int64_t>> size(std::initializer_list<std::string_view> keys, std::int64_t fallback) const;
  // A non-empty object; nullptr when Python would take it for false.
  const json* object_at(std::string_view key) const;
  // Absent and null are the same here.
  std::optional<double> optional_number(const RopeSet& set, std::string_view key) const;
  double required_number(const RopeSet& set, std::string_view key) const;

  const std::string& name() const { return name_; }
  const std::string& model_type() const { return model_type_; }
  const Family& family() const { return known_ ? *known_ : unknown_; }
  const Family* known_family() const { return known_; }
  const HfClass& hf() const { return family().hf; }
  std::vector<std::string>& warnings() { return warnings_; }
  std::vector<std::string>& ignored() { return ignored_; }

  bool older_spelling = false;  // rope_scaling or type were used

 private:
  static void add_once(std::vector<std::string>& list, std::string line);

  std::string name_, prefix_, model_type_;  // prefix: of key paths, "text_config." for instance
  const json* config_;
  const Family* known_ = nullptr;
  Family unknown_;  // stands for a model_type that no family has
  std::vector<std::string> warnings_, ignored_;
};

RopeSet set_of(const nlohmann::json& object, const std::string& where);
const Given* find(const RopeSet& set, std::string_view key);

}  // namespace poslab
