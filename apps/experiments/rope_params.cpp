#include "experiments/rope_params.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "poslab/model_configs/model_config.h"
#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw std::invalid_argument("[rope] " + fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void unavailable(fmt::format_string<Args...> text, Args&&... args) {
  throw RopeTypeUnavailable(fmt::format(text, std::forward<Args>(args)...));
}

// A flag must lie in its range; what a model file says is not looked at.
void check_flag(std::string_view name, const std::optional<double>& value, double least, std::string_view range) {
  if (value && !(std::isfinite(*value) && *value >= least)) refuse("{} must be {} but got {}.", name, range, *value);
}

void check_above_zero(std::string_view name, const std::optional<double>& value) {
  if (value && !(std::isfinite(*value) && *value > 0)) refuse("{} must be above 0 but got {}.", name, *value);
}

void check_length(std::string_view name, const std::optional<std::int64_t>& value) {
  if (value && *value < 1) refuse("{} must be at least 1 but got {}.", name, *value);
}

void check_list(std::string_view name, const std::optional<std::vector<double>>& values) {
  if (!values) return;
  for (double v : *values) check_above_zero(name, v);
}

void check_flags(const RopeParams& p) {
  check_flag("factor", p.factor, 1, "at least 1");
  check_above_zero("rope_theta", p.rope_theta);
  check_length("original_max_position_embeddings", p.original_max_position_embeddings);
  check_length("max_position_embeddings", p.max_position_embeddings);
  check_flag("attention_factor", p.attention_factor, 0, "at least 0");
  check_above_zero("beta_fast", p.beta_fast);
  check_above_zero("beta_slow", p.beta_slow);
  check_above_zero("low_freq_factor", p.low_freq_factor);
  check_above_zero("high_freq_factor", p.high_freq_factor);
  check_list("short_factor", p.short_factor);
  check_list("long_factor", p.long_factor);
  if (p.partial_rotary_factor && !(*p.partial_rotary_factor > 0 && *p.partial_rotary_factor <= 1)) {
    refuse("partial_rotary_factor must be above 0 and at most 1 but got {}.", *p.partial_rotary_factor);
  }
}

template <class T, class U>
void overlay(T& target, const std::optional<U>& flag) {
  if (flag) target = static_cast<T>(*flag);
}

void overlay(std::optional<double>& target, const std::optional<std::int64_t>& flag) {
  if (flag) target = static_cast<double>(*flag);
}

constexpr std::int64_t max_head_dim = 1 << 20;

void resolve_width(const RopeParams& p, RopeScaling& s) {
  overlay(s.head_dim, p.head_dim);
  overlay(s.partial_rotary_factor, p.partial_rotary_factor);
  if (!p.head_dim && !p.rotary_dim && !p.partial_rotary_factor && p.model && !s.rope_type->spreads_over_head) {
    return;  // the model's own, odd or not
  }
  if (s.head_dim < 2 || s.head_dim > max_head_dim) {
    refuse("head_dim must be 2 .. {} but got {}.", max_head_dim, s.head_dim);
  }
  const auto share = static_cast<std::int64_t>(static_cast<double>(s.head_dim) * s.partial_rotary_factor);
  if (p.rotary_dim && p.partial_rotary_factor && *p.rotary_dim != share) {
    refuse("rotary_dim {} and partial_rotary_factor {} of head_dim {}, which is {}, contradict each other.",
           *p.rotary_dim, *p.partial_rotary_factor, s.head_dim, share);
  }
  s.rotary_dim = p.rotary_dim.value_or(s.rope_type->spreads_over_head ? s.head_dim : share);
  if (s.rotary_dim < 2 || s.rotary_dim % 2 != 0 || s.rotary_dim > s.head_dim) {
    refuse("rotary_dim must be even and 2 .. head_dim ({}) but got {}.", s.head_dim, s.rotary_dim);
  }
}

void resolve_values(const RopeParams& p, RopeScaling& s) {
  RopeScaling::each(
      {}, [](auto, auto, auto, auto& target, const auto& flag) { overlay(target, flag); }, s,
      static_cast<const RopeFields<AsGiven>&>(p));
  if ((p.beta_fast || p.beta_slow) && !(s.beta_fast > s.beta_slow)) {
    refuse("beta_fast must be above beta_slow but they are {} and {}.", s.beta_fast, s.beta_slow);
  }
  if ((p.low_freq_factor || p.high_freq_factor) && !(s.high_freq_factor > s.low_freq_factor)) {
    refuse("high_freq_factor must be above low_freq_factor but they are {} and {}.", s.high_freq_factor,
           s.low_freq_factor);
  }
}

// Positions beyond 2^53 cannot be told apart in double.
std::int64_t to_length(double tokens) { return static_cast<std::int64_t>(std::min(tokens, 0x1p53)); }

// What a model reads as it is loaded: short factors end at the original length.
std::int64_t loaded_length(const RopeScaling& s, double original) {
  if (s.rope_type->follows_length == FollowsLength::beyond_original) return to_length(original);
  const double stated = s.max_position_embeddings.value_or(original);
  const bool from_original = s.factor && s.original_max_position_embeddings && s.rope_type->needs_original_length;
  return to_length(from_original ? std::max(stated, original * *s.factor) : stated);
}

// Fills the original length, the target length and an absent factor, in this order.
void resolve_lengths(const RopeParams& p, const RopeFallbacks& fallbacks, std::optional<std::int64_t> seq_len,
                     ResolvedRope& r) {
  RopeScaling& s = r.scaling;
  const bool described = p.model || p.head_dim || p.rotary_dim || p.partial_rotary_factor || p.rope_theta;
  if (!s.original_max_position_embeddings && !s.max_position_embeddings) {
    if (described && s.rope_type->needs_original_length) {
      unavailable(
          "{} needs original_max_position_embeddings, the length of pre-training, and no max_position_embeddings "
          "stands "
          "in for it.",
          to_word(s.rope_type));
    }
    overlay(s.original_max_position_embeddings, fallbacks.original_max_position_embeddings);
    if (described && s.original_max_position_embeddings) {
      r.warnings.push_back(fmt::format("original_max_position_embeddings was not given: {} is taken for it.",
                                       *fallbacks.original_max_position_embeddings));
    }
  }
  const bool known = s.original_max_position_embeddings || s.max_position_embeddings;
  const double original = known ? original_length(s) : 0;
  const bool reaches_factor = s.factor && s.rope_type->uses_factor;
  if (seq_len) {
    r.target_length = *seq_len;
  } else if (p.model) {
    r.target_length = loaded_length(s, original);
  } else if (reaches_factor) {
    r.target_length = to_length(original * *s.factor);
  } else if (s.max_position_embeddings) {
    r.target_length = to_length(*s.max_position_embeddings);
  } else {
    r.target_length = to_length(original * 4);
  }
  if (!s.factor && s.rope_type->uses_factor) {
    if (!known && !s.rope_type->part_of_training) {
      unavailable("{} needs factor, or original_max_position_embeddings to derive it from.", to_word(s.rope_type));
    }
    if (known) s.factor = std::max(1.0, static_cast<double>(r.target_length) / original);
  }
  r.seq_len = seq_len;
  if (!p.model && r.target_length > 0) r.seq_len = r.target_length;
}

void check_type(const RopeScaling& s) {
  if (!s.rope_type->lacks) return;
  if (const std::string reason = s.rope_type->lacks(s); !reason.empty()) unavailable("{}", reason);
}

// "a and b": the words of the types that have the parameter.
std::string types_with(std::string_view parameter) {
  std::vector<std::string_view> words;
  for (const Scaling* row : all_scalings) {
    if (row->has_key(parameter)) words.push_back(row->word);
  }
  return fmt::format("{}", fmt::join(words, " and "));
}

void warn_about_layers(const RopeParams& p, const ModelConfig& config, const LayerPositions& shown,
                       std::vector<std::string>& warnings) {
  if (p.layer_type || config.layers.size() < 2) return;
  std::vector<std::string> others;
  for (const LayerPositions& layer : config.layers) {
    if (layer.layer_type != shown.layer_type) others.push_back(layer.layer_type);
  }
  warnings.push_back(fmt::format("this is the set of {}; layer_type picks the model's other: {}.", shown.layer_type,
                                 fmt::join(others, ", ")));
}

void warn_about_overrides(const RopeParams& p, const RopeScaling& of_model, const RopeScaling& s,
                          std::vector<std::string>& warnings) {
  if (p.rope_theta && *p.rope_theta != of_model.rope_theta) {
    warnings.push_back(fmt::format("rope_theta {} replaces the model's {}.", *p.rope_theta, of_model.rope_theta));
  }
  if (!s.original_max_position_embeddings && s.rope_type->uses_factor && !s.rope_type->needs_original_length) {
    warnings.push_back(fmt::format(
        "the config does not say what length the model had before scaling: max_position_embeddings {} is taken for it.",
        s.max_position_embeddings.value_or(0)));
  }
  if (s.rope_type == of_model.rope_type || !s.rope_type->uses_factor) return;
  if (of_model.factor && !p.factor && of_model.rope_type->uses_factor) {
    warnings.push_back(fmt::format("factor {} is that of the model's {}; give --factor for another.", *of_model.factor,
                                   to_word(of_model.rope_type)));
  }
  if (s.rope_type->trained_on_stated_length && of_model.original_max_position_embeddings &&
      of_model.max_position_embeddings != of_model.original_max_position_embeddings) {
    warnings.push_back(fmt::format("{} takes max_position_embeddings {} for the trained length, not {}.",
                                   to_word(s.rope_type), *s.max_position_embeddings,
                                   *of_model.original_max_position_embeddings));
  }
}

}  // namespace

std::string scalings_with(std::string_view parameter) {
  if (parameter == "factor" || parameter == "original_max_position_embeddings") return "";
  std::vector<std::string_view> words;
  for (const Scaling* row : all_scalings) {
    if (row->has_key(parameter)) words.push_back(row->word);
  }
  return words.empty() ? "" : fmt::format("{}: ", fmt::join(words, ", "));
}

ResolvedRope resolve_rope(const RopeParams& p, const RopeFallbacks& fallbacks, std::optional<std::int64_t> seq_len) {
  check_flags(p);
  check_length("seq_len", seq_len);
  ResolvedRope r;
  RopeScaling of_model;
  if (p.model) {
    const ModelConfig config = load_model_config(*p.model);
    const LayerPositions& layer = layer_positions(config, p.layer_type);
    if (layer.encoding != ModelEncoding::rope) {
      refuse("model '{}' tells positions apart by {}, not by RoPE.", *p.model, to_word(layer.encoding));
    }
    r.scaling = layer.rope;
    r.layout = layer.layout;
    r.mrope_section = layer.mrope_section;
    r.softmax_multiplier = layer.softmax_multiplier;
    r.warnings = config.warnings;
    r.layer_type = layer.layer_type;
    of_model = layer.rope;
    warn_about_layers(p, config, layer, r.warnings);
  } else {
    if (p.layer_type) refuse("layer_type '{}' picks one of a model's sets, but no model is given.", *p.layer_type);
    r.scaling.rope_type = fallbacks.rope_type;
    r.scaling.head_dim = fallbacks.head_dim;
  }
  overlay(r.scaling.rope_type, p.rope_type);
  resolve_width(p, r.scaling);
  resolve_values(p, r.scaling);
  check_type(r.scaling);
  resolve_lengths(p, fallbacks, seq_len, r);
  // MLA: the multiplier follows a factor or mscale_all_dim given by flag.
  if (r.softmax_multiplier != 1)
    r.softmax_multiplier = r.scaling.rope_type->uses_factor ? mla_softmax_multiplier(r.scaling) : 1;
  r.trained_theta = p.model ? of_model.rope_theta : r.scaling.rope_theta;
  if (p.model) warn_about_overrides(p, of_model, r.scaling, r.warnings);
  if (p.attention_factor && !r.scaling.rope_type->has_key("attention_factor")) {
    r.warnings.push_back(fmt::format("attention_factor is read by {} only, not by {}.", types_with("attention_factor"),
                                     to_word(r.scaling.rope_type)));
  }
  return r;
}

RopeFrequencies resolved_frequencies(const ResolvedRope& resolved) {
  return rope_frequencies(resolved.scaling, resolved.seq_len);
}

std::string rope_type_left_out(const RopeParams& params, const RopeFallbacks& fallbacks,
                               std::optional<std::int64_t> seq_len) {
  try {
    resolve_rope(params, fallbacks, seq_len);
  } catch (const RopeTypeUnavailable& e) {
    return e.reason();
  } catch (const std::invalid_argument&) {
    // An error whatever the type: the run itself reports it.
  }
  return "";
}

}  // namespace poslab
