#include "poslab/model_configs/config_text.h"

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

RopeSet ConfigText::set_of(const json& object, const std::string& where) {
  RopeSet set;
  for (const auto& [key, value] : object.items()) set[key] = {value, where + "." + key};
  return set;
}

const Given* ConfigText::find(const RopeSet& set, std::string_view key) {
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
