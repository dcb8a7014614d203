#include "experiments/model_rope.h"

#include <fmt/format.h>

#include <stdexcept>

namespace poslab {
namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument("[rope] " + sentence); }

bool gives_anything(const RopeParams& params) {
  bool any = params.layer_type.has_value();
  RopeParams::fields(params, [&](std::string_view name, const auto& value, std::string_view = {},
                                 std::string_view = {}) { any = any || (name != "model" && value.has_value()); });
  return any;
}

void require_same(const char* name, const std::optional<std::int64_t>& given, std::int64_t own) {
  if (given && *given != own) refuse(fmt::format("{} {} is not the model's, which is {}.", name, *given, own));
}

template <class T, class U>
void supply(std::optional<T>& flag, const U& own) {
  if (!flag) flag = own;
}
void supply(std::optional<std::int64_t>& flag, const std::optional<double>& own) {
  if (!flag && own) flag = static_cast<std::int64_t>(*own);
}
void supply(std::optional<std::vector<double>>& flag, const std::vector<double>& own) {
  if (!flag && !own.empty()) flag = own;
}

}  // namespace

RopeParams rope_over_model(RopeParams p, const TransformerConfig& config) {
  RopeScaling own = config.rope;
  if (p.layer_type && config.local_layers.empty()) {
    refuse(fmt::format("layer_type '{}': the layers of this model are all alike.", *p.layer_type));
  }
  if (p.layer_type && *p.layer_type != "full_attention") {
    refuse(fmt::format("layer_type '{}': local layers keep their frequencies; full_attention is what can be scaled.",
                       *p.layer_type));
  }
  p.layer_type.reset();
  require_same("head_dim", p.head_dim, own.head_dim);
  require_same("rotary_dim", p.rotary_dim, own.rotary_dim);
  if (!p.rope_type) p.rope_type = own.rope_type;
  const RopeType type = *p.rope_type;
  if (p.partial_rotary_factor && !type->spreads_over_head) {
    refuse("partial_rotary_factor is fixed by the weights; only a rope_type that spreads over the head reads it.");
  }
  p.model.reset();
  if (type != own.rope_type) own.attention_factor.reset();
  if (!own.max_position_embeddings) own.max_position_embeddings = static_cast<double>(config.max_position_embeddings);
  RopeScaling::each(
      {}, [](auto, auto, auto, auto& flag, const auto& value) { supply(flag, value); },
      static_cast<RopeFields<AsGiven>&>(p), own);
  if (!type->spreads_over_head) p.partial_rotary_factor.reset();
  return p;
}

ModelRope model_rope(const RopeParams& params, const TransformerConfig& config, std::int64_t length) {
  ModelRope out;
  const bool given = gives_anything(params);
  if (!config.encoding->acts_on(Place::rotation)) {
    if (given && params.rope_type != RopeType()) {
      refuse(fmt::format("the model tells positions apart by {}, so there is no RoPE to scale.",
                         to_word(config.encoding)));
    }
    return out;
  }
  out.rope_type = config.rope.rope_type;
  out.factor = config.rope.factor;
  if (!given) return out;
  const ResolvedRope resolved = resolve_rope(rope_over_model(params, config), {}, length);
  out.frequencies = resolved_frequencies(resolved);
  out.rope_type = resolved.scaling.rope_type;
  out.factor = resolved.scaling.factor;
  out.warnings = resolved.warnings;
  return out;
}

std::string model_rope_left_out(const RopeParams& params, const TransformerConfig& config, std::int64_t length) {
  if (!config.encoding->acts_on(Place::rotation)) {
    return params.rope_type == RopeType() ? "" : "the model has no RoPE to scale";
  }
  try {
    return rope_type_left_out(rope_over_model(params, config), {}, length);
  } catch (const std::invalid_argument&) {
    return "";  // an error whatever the type: the run itself reports it
  }
}

}  // namespace poslab
