// A parsed config.json as its readers see it: typed access by key path, errors that name the key, warnings. Internal to
// hf_config.
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

#include "poslab/model_configs/hf_config.h"
#include "poslab/model_configs/model_classes.h"

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

// As Python's bool(...): what `rope_scaling or rope_parameters` looks at.
bool truthy(const nlohmann::json& v);

// A value of the file as it stands there, short enough for a one-line message.
std::string shown(const nlohmann::json& v);

const nlohmann::json& object_or_empty(const nlohmann::json* v);

class ConfigText {
 protected:
  using json = nlohmann::json;

  ConfigText(const json& config, std::string_view name) : config_(&config) { out_.name = name; }

  template <class... A>
  [[noreturn]] void fail(fmt::format_string<A...> text, A&&... args) const {
    const std::string line = fmt::format(text, std::forward<A>(args)...);
    throw std::invalid_argument(
        fmt::format("[model_config] {}: {}{}", out_.name, line, line.ends_with('?') ? "" : "."));
  }

  template <class... A>
  void warn(fmt::format_string<A...> text, A&&... args) {
    std::string line = fmt::format(text, std::forward<A>(args)...);
    if (std::find(out_.warnings.begin(), out_.warnings.end(), line) == out_.warnings.end()) {
      out_.warnings.push_back(std::move(line));
    }
  }

  void ignore(std::string path) {
    if (std::find(out_.ignored.begin(), out_.ignored.end(), path) == out_.ignored.end()) {
      out_.ignored.push_back(std::move(path));
    }
  }

  // The value at a top-level key, or at "outer.inner"; nullptr when absent.
  const json* top(std::string_view key) const;
  std::string path(std::string_view key) const { return prefix_ + std::string(key); }
  std::string class_default() const { return fmt::format("class default ({})", class_->model_type); }
  double number(const json& v, std::string_view where) const;
  std::int64_t positive_integer(const json& v, std::string_view where) const;
  bool boolean(std::string_view key, bool fallback) const;
  // The first of the keys that has a value; else the class default (0: none).
  std::optional<Sourced<std::int64_t>> size(std::initializer_list<std::string_view> keys, std::int64_t fallback) const;
  // A non-empty object; nullptr when Python would take it for false.
  const json* object_at(std::string_view key) const;
  static RopeSet set_of(const json& object, const std::string& where);
  static const Given* find(const RopeSet& set, std::string_view key);
  // Absent and null are the same here.
  std::optional<double> optional_number(const RopeSet& set, std::string_view key) const;
  double required_number(const RopeSet& set, std::string_view key) const;

  static void add(LayerPositions& layer, std::string name, std::string value, std::string source) {
    layer.facts.push_back({std::move(name), std::move(value), std::move(source)});
  }

  ModelConfig out_;
  const json* config_;
  std::string prefix_;  // of key paths, "text_config." for instance
  const ModelClass* class_ = nullptr;
};

}  // namespace poslab
