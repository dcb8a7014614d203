#include "poslab/model_configs/config_text.h"

#include <algorithm>

#include "poslab/model_configs/hf_config.h"

namespace poslab {

bool truthy(const nlohmann::json& v) {
  if (v.is_boolean()) return v.get<bool>();
  if (v.is_number()) return v.get<double>() != 0;
  if (v.is_string()) return !v.get_ref<const std::string&>().empty();
  return !v.empty();
}

std::string shown(const nlohmann::json& v) {
  constexpr std::size_t longest = 40;
  std::string text = v.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return text;
}

const nlohmann::json& object_or_empty(const nlohmann::json* v) {
  static const nlohmann::json empty = nlohmann::json::object();
  return v && v->is_object() ? *v : empty;
}

ConfigText::ConfigText(const json& config, std::string_view name) : name_(name), config_(&config) {
  if (!config_->is_object()) fail("the top level must be an object but is {}", shown(*config_));
  const json* type = top("model_type");
  const TextPart part = text_part(*config_);
  config_ = part.config;
  prefix_ = part.prefix;
  if (const json* inner = top("model_type")) type = inner;
  if (type && !type->is_null()) {
    if (!type->is_string()) fail("{} must be text but is {}", path("model_type"), shown(*type));
    model_type_ = type->get<std::string>();
  }
  known_ = find_family(model_type_);
  if (known_) return;
  unknown_.model_type = model_type_;
  unknown_.hf.default_type_is_partial = true;
  if (model_type_.empty()) {
    warn("model_type is absent: read like a Llama config.");
  } else {
    warn("model_type {} is not known: read like a Llama config.", shown(model_type_));
  }
}

void ConfigText::add_once(std::vector<std::string>& list, std::string line) {
  if (std::find(list.begin(), list.end(), line) == list.end()) list.push_back(std::move(line));
}

const nlohmann::json* ConfigText::top(std::string_view key) const {
  const auto dot = key.find('.');
  if (dot != key.npos) {
    const json& outer = object_or_empty(top(key.substr(0, dot)));
    const auto it = outer.find(key.substr(dot + 1));
    return it == outer.end() ? nullptr : &*it;
  }
  const auto it = config_->find(key);
  return it == config_->end() ? nullptr : &*it;
}

double ConfigText::number(const json& v, std::string_view where) const {
  if (!v.is_number()) fail("{} must be a number but is {}", where, shown(v));
  return v.get<double>();
}

std::int64_t ConfigText::positive_integer(const json& v, std::string_view where) const {
  if (!v.is_number_integer()) fail("{} must be an integer but is {}", where, shown(v));
  if (v.get<double>() < 1 || v.get<double>() > most_size) {
    fail("{} must be 1 .. {} but is {}", where, most_size, shown(v));
  }
  return v.get<std::int64_t>();
}

bool ConfigText::boolean(std::string_view key, bool fallback) const {
  const json* v = top(key);
  if (!v || v->is_null()) return fallback;
  if (!v->is_boolean()) fail("{} must be true or false but is {}", path(key), shown(*v));
  return v->get<bool>();
}

std::optional<Sourced<std::int64_t>> ConfigText::size(std::initializer_list<std::string_view> keys,
                                                      std::int64_t fallback) const {
  for (std::string_view key : keys) {
    if (const json* v = top(key); v && !v->is_null()) return {{positive_integer(*v, path(key)), path(key)}};
  }
  if (fallback > 0) return {{fallback, class_default()}};
  return std::nullopt;
}

const nlohmann::json* ConfigText::object_at(std::string_view key) const {
  const json* v = top(key);
  if (!v || !truthy(*v)) return nullptr;
  if (!v->is_object()) fail("{} must be an object but is {}", path(key), shown(*v));
  return v;
}

RopeSet set_of(const nlohmann::json& object, const std::string& where) {
  RopeSet set;
  for (const auto& [key, value] : object.items()) set[key] = {value, where + "." + key};
  return set;
}

const Given* find(const RopeSet& set, std::string_view key) {
  const auto it = set.find(key);
  return it == set.end() ? nullptr : &it->second;
}

std::optional<double> ConfigText::optional_number(const RopeSet& set, std::string_view key) const {
  const Given* g = find(set, key);
  if (!g || g->value.is_null()) return std::nullopt;
  return number(g->value, g->source);
}

double ConfigText::required_number(const RopeSet& set, std::string_view key) const {
  const Given& g = *find(set, key);
  return number(g.value, g.source);
}

}  // namespace poslab
