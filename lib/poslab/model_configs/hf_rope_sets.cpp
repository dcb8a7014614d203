#include "poslab/model_configs/hf_rope_sets.h"

#include <algorithm>

namespace poslab {

std::vector<LayerPositions> RopeSetsReader::read() {
  using enum RopeReading;
  switch (hf_.reading) {
    case per_layer:
      for (const LayerSet& layer : hf_.layers) add(layer.layer_type, per_layer_set(layer), true);
      warn_flat_parameters();
      break;
    case nested_only:
      for (const LayerSet& layer : hf_.layers) read_nested_only(layer);
      break;
    case rotary_dim:
      read_rotary_dim();
      break;
    case chatglm:
      read_chatglm();
      break;
    case flat:
    case phi3:
    case phimoe:
    case mla:
    case hunyuan:
    case qwen_vl:
      if (!text_.known_family() && is_nested()) {
        read_unknown_nested();
      } else {
        add("", flat_set(), false);
      }
      break;
  }
  read_layers_without();
  return std::move(layers_);
}

void RopeSetsReader::read_unknown_nested() {
  for (const auto& [type, value] : (*text_.top("rope_parameters")).items()) {
    RopeSet set = set_of(value, text_.path("rope_parameters." + type));
    default_theta(set, "rope_theta", hf_.rope_theta);
    add(type, {std::move(set), {}}, true);
  }
}

bool RopeSetsReader::is_nested() const {
  const json* sets = text_.top("rope_parameters");
  if (!sets || !sets->is_object() || sets->empty() || text_.object_at("rope_scaling")) return false;
  return std::all_of(sets->begin(), sets->end(), [](const json& v) { return v.is_object(); });
}

RopeSetsReader::SetAndAttribute RopeSetsReader::flat_set() {
  RopeSet set;
  const json* scaling = text_.object_at("rope_scaling");
  const json* parameters = text_.object_at("rope_parameters");
  if (scaling) {
    set = set_of(*scaling, text_.path("rope_scaling"));
    text_.older_spelling = true;
    if (parameters) {
      text_.ignore(text_.path("rope_parameters"));
      text_.warn("{} replaces {}, which has no effect.", text_.path("rope_scaling"), text_.path("rope_parameters"));
    }
  } else if (parameters) {
    set = set_of(*parameters, text_.path("rope_parameters"));
  } else if (const json* null = text_.top("rope_parameters");
             !hf_.rope_parameters.empty() && (!null || null->is_null())) {
    const json defaults = json::parse(hf_.rope_parameters);
    for (const auto& [key, value] : defaults.items()) set[key] = {value, text_.class_default()};
    text_.warn("No rope_parameters are given: the class default of {} is used, {}.", type_,
               set["rope_type"].value.get<std::string>());
  }
  default_theta(set, hf_.theta_key, hf_.rope_theta);
  auto attribute = default_partial(set);
  return {std::move(set), std::move(attribute)};
}

RopeSetsReader::SetAndAttribute RopeSetsReader::per_layer_set(const LayerSet& layer) {
  RopeSet set;
  const std::string key(layer.layer_type);
  const json* parameters = text_.object_at("rope_parameters");
  const json* own = parameters && parameters->contains(key) ? &(*parameters)[key] : nullptr;
  if (own && own->is_object()) {
    set = set_of(*own, text_.path("rope_parameters." + key));
  } else if (own && !own->is_null()) {
    text_.fail("{} must be an object but is {}", text_.path("rope_parameters." + key), shown(*own));
  } else {
    set["rope_type"] = {"default", text_.class_default()};
  }
  if (const json* scaling = text_.object_at("rope_scaling"); scaling && layer.scaled) {
    text_.older_spelling = true;
    for (auto& [name, given] : set_of(*scaling, text_.path("rope_scaling"))) set[name] = given;
  }
  default_theta(set, layer.theta_key, layer.rope_theta);
  auto attribute = default_partial(set);
  return {std::move(set), std::move(attribute)};
}

void RopeSetsReader::warn_flat_parameters() {
  const bool reads_theta = std::any_of(hf_.layers.begin(), hf_.layers.end(),
                                       [](const LayerSet& layer) { return layer.theta_key == "rope_theta"; });
  if (!reads_theta && text_.top("rope_theta")) {
    text_.ignore(text_.path("rope_theta"));
    text_.warn("{} has no effect: {} reads {}.", text_.path("rope_theta"), type_, hf_.layers.front().theta_key);
  }
  for (const auto& [key, value] : object_or_empty(text_.object_at("rope_parameters")).items()) {
    const bool is_layer = std::any_of(hf_.layers.begin(), hf_.layers.end(),
                                      [&k = key](const LayerSet& layer) { return layer.layer_type == k; });
    if (is_layer) continue;
    text_.ignore(text_.path("rope_parameters." + key));
    text_.warn("{} has no effect: {} reads one set for each layer type (rope_parameters.{}.{}, ...).",
               text_.path("rope_parameters." + key), type_, hf_.layers.front().layer_type, key);
  }
}

void RopeSetsReader::read_nested_only(const LayerSet& layer) {
  for (std::string_view key :
       {"rope_theta", "rope_scaling", "rope_local_base_freq", "swa_rope_theta", "partial_rotary_factor"}) {
    if (const json* v = text_.top(key); v && !v->is_null()) {
      text_.ignore(text_.path(key));
      text_.warn("{} has no effect: {} reads rope_parameters alone.", text_.path(key), type_);
    }
  }
  RopeSet set;
  const std::string key(layer.layer_type);
  const json* parameters = text_.top("rope_parameters");
  if (!parameters || parameters->is_null()) {
    set["rope_type"] = {std::string(layer.rope_type), text_.class_default()};
    set["rope_theta"] = {layer.rope_theta, text_.class_default()};
    if (layer.partial_rotary_factor != 0) {
      set["partial_rotary_factor"] = {layer.partial_rotary_factor, text_.class_default()};
    }
    text_.warn("No rope_parameters are given: the class defaults of {} are used.", type_);
  } else {
    if (!parameters->is_object())
      text_.fail("{} must be an object but is {}", text_.path("rope_parameters"), shown(*parameters));
    if (!parameters->contains(key)) text_.fail("{} is missing", text_.path("rope_parameters." + key));
    const json& own = (*parameters)[key];
    if (own.is_null()) {
      add_without(key, text_.path("rope_parameters." + key));
      return;
    }
    if (!own.is_object())
      text_.fail("{} must be an object but is {}", text_.path("rope_parameters." + key), shown(own));
    set = set_of(own, text_.path("rope_parameters." + key));
    if (!set.contains("rope_theta")) text_.fail("{} is missing", text_.path("rope_parameters." + key + ".rope_theta"));
  }
  add(key, {std::move(set), {}}, true);
}

void RopeSetsReader::read_rotary_dim() {
  RopeSet set;
  set["rope_theta"] = {10000, text_.class_default()};
  for (std::string_view key : {"rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor"}) {
    if (const json* v = text_.top(key); v && !v->is_null()) {
      text_.ignore(text_.path(key));
      text_.warn("{} has no effect: {} always turns rotary_dim channels with base 10000.", text_.path(key), type_);
    }
  }
  const json* given = text_.top("rotary_dim");
  if (given && given->is_null()) text_.warn("{} is null: the whole head turns.", text_.path("rotary_dim"));
  add("", {std::move(set), {}}, false, text_.size({"rotary_dim"}, given ? 0 : 64));
}

void RopeSetsReader::read_chatglm() {
  RopeSet set;
  const json* ratio = text_.top("rope_ratio");
  const double times = ratio && !ratio->is_null() ? text_.number(*ratio, text_.path("rope_ratio")) : 1;
  set["rope_theta"] = {10000 * times, ratio ? "derived: 10000 * " + text_.path("rope_ratio") : text_.class_default()};
  if (text_.object_at("rope_scaling")) {
    text_.ignore(text_.path("rope_scaling"));
    text_.warn("{} has no effect: chatglm reads rope_ratio.", text_.path("rope_scaling"));
  }
  const auto width = set_reader_.head_dim();
  add("", {std::move(set), {}}, false, {{width.value / 2, "derived: half of the head, as ChatGLM turns"}});
}

void RopeSetsReader::default_theta(RopeSet& set, std::string_view key, double fallback) {
  const json* outer = key.empty() ? nullptr : text_.top(key);
  if (key != "rope_theta") {
    if (const json* other = text_.top("rope_theta"); other && !other->is_null() && hf_.layers.empty()) {
      text_.ignore(text_.path("rope_theta"));
      text_.warn("{} has no effect: {} reads {}.", text_.path("rope_theta"), type_, key);
    }
  }
  if (const Given* inner = find(set, "rope_theta")) {
    if (outer && *outer != inner->value) {
      text_.ignore(text_.path(key));
      text_.warn("{} is {} but {} is {}: the value inside wins.", text_.path(key), shown(*outer), inner->source,
                 shown(inner->value));
    }
    return;
  }
  if (outer) {
    set["rope_theta"] = {*outer, text_.path(key)};
    return;
  }
  set["rope_theta"] = {fallback, text_.class_default()};
  if (key.empty()) return;
  text_.warn("{} is not given: {} is used, the class default{}.", text_.path(key), fallback,
             !text_.known_family() ? " of Llama" : fmt::format(" of {}", type_));
}

std::optional<Given> RopeSetsReader::default_partial(RopeSet& set) {
  constexpr std::string_view name = "partial_rotary_factor";
  std::optional<Given> attribute;
  const json* outer = text_.top(name);
  const bool outer_given = outer && !outer->is_null();
  if (outer_given) attribute = Given{*outer, text_.path(name)};
  std::optional<Given> fallback = attribute;
  if (hf_.partial_key != name) {
    // The class takes the older key away, so that only a value of the newer name is left as an attribute.
    const json* older = text_.top(hf_.partial_key);
    fallback =
        older ? Given{*older, text_.path(hf_.partial_key)} : Given{hf_.partial_rotary_factor, text_.class_default()};
    if (!older && hf_.partial_rotary_factor == 0) fallback.reset();
  } else if (!hf_.rotary_width_key.empty() && !outer_given && text_.top(hf_.rotary_width_key)) {
    const double share = text_.number(*text_.top(hf_.rotary_width_key), text_.path(hf_.rotary_width_key)) /
                         static_cast<double>(set_reader_.head_dim().value);
    attribute = fallback = Given{share, "derived: " + text_.path(hf_.rotary_width_key) + " / head_dim"};
  } else if (!outer_given && hf_.partial_rotary_factor != 0) {
    attribute = fallback = Given{hf_.partial_rotary_factor, text_.class_default()};
  }
  if (fallback && !set.contains(name)) set[std::string(name)] = *fallback;
  return attribute;
}

void RopeSetsReader::add_without(std::string layer_type, std::string source) {
  LayerPositions layer;
  layer.layer_type = std::move(layer_type);
  layer.encoding = ModelEncoding::none;
  layer.add("encoding", "none", std::move(source));
  layers_.push_back(std::move(layer));
}

void RopeSetsReader::read_layers_without() {
  const json* window = text_.top("sliding_window");
  if (hf_.full_attention == FullAttention::never_rotates ||
      (hf_.full_attention == FullAttention::rotates_without_window && window && !window->is_null())) {
    layers_.front().layer_type = "sliding_attention";
    add_without("full_attention", text_.class_default());
  }
  if (!hf_.lists_layers_without) return;
  LayerPositions& layer = layers_.front();
  if (const json* list = text_.top("no_rope_layers"); list && list->is_array() && !list->empty()) {
    const auto without = std::count_if(list->begin(), list->end(), [](const json& v) { return !truthy(v); });
    layer.add("layers_without_rope", fmt::format("{} of {}", without, list->size()), text_.path("no_rope_layers"));
  } else {
    const auto every = text_.size({"no_rope_layer_interval"}, 4);
    layer.add("layers_without_rope", fmt::format("every {}th", every->value), every->source);
  }
}

}  // namespace poslab
