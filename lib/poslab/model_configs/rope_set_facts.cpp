// What a RopeSetReader tells of a set: each value with the key or the rule that it came from.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <type_traits>

#include "poslab/model_configs/rope_set.h"

namespace poslab {
namespace {

std::string text_of(double v) { return fmt::format("{}", v); }

std::string list_summary(const std::vector<double>& list) {
  if (list.empty()) return "empty";
  const auto [low, high] = std::minmax_element(list.begin(), list.end());
  return fmt::format("{} values, {} to {}", list.size(), *low, *high);
}

}  // namespace

void RopeSetReader::add_facts(LayerPositions& layer, const RopeSet& set, const Origins& from,
                              double attention_factor) const {
  const RopeScaling& rope = layer.rope;
  add(layer, "encoding", "rope", encoding_source_);
  add(layer, "layout", std::string(to_word(layer.layout)), from.layout);
  add(layer, "head_dim", std::to_string(rope.head_dim), from.head_dim);
  add(layer, "partial_rotary_factor", text_of(rope.partial_rotary_factor), from.partial);
  add(layer, "rotary_dim", std::to_string(rope.rotary_dim), from.rotary_dim);
  add(layer, "rope_theta", text_of(rope.rope_theta), find(set, "rope_theta")->source);
  add(layer, "rope_type", std::string(to_word(rope.rope_type)), type_.source);

  // A value whose source is its key where that has one, else the rule.
  const auto add_key = [&](std::string_view key, std::string value, std::string_view rule) {
    const Given* g = find(set, key);
    add(layer, std::string(key), std::move(value), g && !g->value.is_null() ? g->source : std::string(rule));
  };
  if (alpha_is_factor_) add_key("alpha", text_of(*rope.factor), "");
  if (rope.factor && !alpha_is_factor_) {
    add_key("factor", text_of(*rope.factor), "derived: max_position_embeddings / original_max_position_embeddings");
  }
  if (rope.original_max_position_embeddings) {
    add(layer, "original_max_position_embeddings", text_of(*rope.original_max_position_embeddings), from.original);
  }
  // The scaling's own keys, but for those that have a line of their own.
  const auto add_value = [&](std::string_view key, const auto& value) {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, std::optional<double>>) {
      if (value) add_key(key, text_of(*value), "");
    } else if constexpr (std::is_same_v<T, double>) {
      add_key(key, text_of(value), "rope_type default");
    } else if constexpr (std::is_same_v<T, std::vector<double>>) {
      add_key(key, list_summary(value), "");
    } else if constexpr (std::is_same_v<T, bool>) {
      const Given* given = find(set, key);
      add(layer, std::string(key), value ? "true" : "false",
          given && truthy(given->value) == value ? given->source : "rope_type default");
    }
  };
  for (const auto* keys : {&rope.rope_type->config.required, &rope.rope_type->config.optional}) {
    for (const std::string_view key : *keys) {
      if (key == "factor" || key == "original_max_position_embeddings" || key == "attention_factor") continue;
      RopeScaling::each(
          {},
          [&](std::string_view name, auto, auto, const auto& value) {
            if (name == key) add_value(key, value);
          },
          rope);
    }
  }
  for (std::string_view key : {"short_mscale", "long_mscale", "llama_4_scaling_beta"}) {
    if (const Given* g = find(set, key); g && is_own_key(key)) add_key(key, shown(g->value), "");
  }

  if (rope.attention_factor) {
    add_key("attention_factor", text_of(attention_factor), "");
  } else {
    add(layer, "attention_factor", text_of(attention_factor), attention_factor_rule(rope));
  }
  add(layer, "softmax_multiplier", text_of(layer.softmax_multiplier),
      class_->reading == RopeReading::mla ? "derived: (0.1 mscale_all_dim ln(factor) + 1)^2 in MLA models"
                                          : "derived: 1 outside MLA models");
  if (max_positions_) {
    add(layer, "max_position_embeddings", std::to_string(max_positions_->value), max_positions_->source);
  }
  if (rope.original_max_position_embeddings) {
    add(layer, "trained_length", text_of(*rope.original_max_position_embeddings), from.original);
  } else if (max_positions_) {
    add(layer, "trained_length", std::to_string(max_positions_->value), max_positions_->source);
  }
}

std::string RopeSetReader::attention_factor_rule(const RopeScaling& rope) {
  const auto rule = rope.rope_type->config.attention_rule;
  return rule ? std::string(rule(rope)) : fmt::format("derived: 1 for rope_type {}", rope.rope_type.word());
}

}  // namespace poslab
