#include "poslab/model_configs/rope_set.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "poslab/core/suggestion.h"

namespace poslab {
namespace {

std::string text_of(double v) { return fmt::format("{}", v); }

std::string list_summary(const std::vector<double>& list) {
  if (list.empty()) return "empty";
  const auto [low, high] = std::minmax_element(list.begin(), list.end());
  return fmt::format("{} values, {} to {}", list.size(), *low, *high);
}

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const auto end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

// Keys that rope_type reads: the required ones first, then the optional ones. rope_theta and partial_rotary_factor go
// with every type.
struct TypeKeys {
  std::string_view required, optional;
};
TypeKeys keys_of(RopeType type) {
  switch (type) {
    case RopeType::default_:
      return {"", ""};
    case RopeType::linear:
    case RopeType::dynamic:
    case RopeType::ntk:
      return {"factor", ""};
    case RopeType::ntk_by_parts:
      return {"factor", "original_max_position_embeddings beta_fast beta_slow"};
    case RopeType::yarn:
      return {"factor",
              "original_max_position_embeddings attention_factor beta_fast beta_slow mscale mscale_all_dim truncate"};
    case RopeType::longrope:
      return {"short_factor long_factor", "original_max_position_embeddings attention_factor factor"};
    case RopeType::llama3:
      return {"factor low_freq_factor high_freq_factor", "original_max_position_embeddings"};
    case RopeType::proportional:
      return {"", "factor"};
  }
  return {};
}

bool uses_original_length(RopeType type) {
  return type == RopeType::yarn || type == RopeType::longrope || type == RopeType::llama3 ||
         type == RopeType::ntk_by_parts;
}

std::vector<std::string> rope_type_words() {
  std::vector<std::string> out;
  for (const auto& entry : words(RopeType{})) out.emplace_back(entry.second);
  return out;
}

}  // namespace

Sourced<std::int64_t> RopeSetReader::head_dim() const {
  if (class_->reading == RopeReading::mla) return *text_.size({"qk_rope_head_dim"}, class_->head_dim);
  if (auto given = text_.size({"head_dim", "kv_channels"}, class_->head_dim)) return *given;
  if (!sizes_.hidden) fail("{} is missing, and so is head_dim", path("hidden_size"));
  if (!sizes_.heads) fail("{} is missing, and so is head_dim", path("num_attention_heads"));
  if (sizes_.hidden->value < sizes_.heads->value) {
    fail("{} {} is less than {} {}", path("hidden_size"), sizes_.hidden->value, path("num_attention_heads"),
         sizes_.heads->value);
  }
  return {sizes_.hidden->value / sizes_.heads->value,
          fmt::format("derived: {} / {}", sizes_.hidden->source, sizes_.heads->source)};
}

Sourced<std::int64_t> RopeSetReader::head_dim_of_layer(std::string_view layer_type) const {
  for (const LayerSet& layer : class_->layers) {
    if (layer.layer_type == layer_type && !layer.head_dim_key.empty()) {
      return *text_.size({layer.head_dim_key}, layer.head_dim);
    }
  }
  return head_dim();
}

RopeType RopeSetReader::read_type(const RopeSet& set) {
  const Given* newer = find(set, "rope_type");
  const Given* older = find(set, "type");
  if (newer && older && newer->value != older->value) {
    ignore(older->source);
    warn("{} is {} but {} is {}: rope_type wins.", older->source, shown(older->value), newer->source,
         shown(newer->value));
  }
  type_ = newer ? *newer : older ? *older : Given{"default", "derived: no rope_type is given"};
  text_.older_spelling = text_.older_spelling || (!newer && older);
  if (!type_.value.is_string()) fail("{} must be text but is {}", type_.source, shown(type_.value));
  std::string word = type_.value.get<std::string>();

  if (class_->reading == RopeReading::phi3 && (word == "su" || word == "yarn")) {
    warn("{} {} is an older name: Phi-3 takes it for longrope.", type_.source, shown(type_.value));
    // The older name is not yet known when a missing length is filled in.
    if (word == "su" && !set.contains("original_max_position_embeddings")) {
      fail("{} is missing, which type su needs", path("rope_scaling.original_max_position_embeddings"));
    }
    word = "longrope";
  }
  if (class_->reading == RopeReading::phi3 && word != "default" && word != "longrope") {
    fail("{} must be longrope for Phi-3 but is {}", type_.source, shown(type_.value));
  }
  if (class_->reading == RopeReading::qwen_vl && word == "mrope") {
    warn("{} \"mrope\" is an older name for default, with positions of three kinds.", type_.source);
    word = "default";
  }
  for (const auto& [enumerator, name] : words(RopeType{})) {
    if (name != word) continue;
    if (enumerator == RopeType::ntk || enumerator == RopeType::ntk_by_parts) {
      warn("{} {} is not known to transformers, which refuses the model; the formula is poslab's.", type_.source,
           shown(type_.value));
    }
    return enumerator;
  }
  if (word == "mrope") fail("{} is \"mrope\", which only Qwen2-VL's config reads", type_.source);
  fail("{} is {}, which is no rope_type{}", type_.source, shown(type_.value), suggestion(word, rope_type_words()));
}

void RopeSetReader::check_keys(const RopeSet& set, RopeType type) {
  const TypeKeys keys = keys_of(type);
  std::vector<std::string> missing;
  std::string_view rest = keys.required;
  while (!rest.empty()) {
    const auto end = std::min(rest.find(' '), rest.size());
    if (!set.contains(rest.substr(0, end))) missing.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (!missing.empty()) {
    fail("{} missing in {}, which rope_type {} needs",
         missing.size() == 1 ? missing.front() + " is" : fmt::format("{} are", fmt::join(missing, ", ")), set_path(),
         to_word(type));
  }
  for (const auto& [key, given] : set) {
    if (has_word("rope_type type rope_theta partial_rotary_factor", key)) continue;
    if (has_word(keys.required, key) || has_word(keys.optional, key) || has_word(class_->own_keys, key)) continue;
    if (key == "attn_factor") continue;  // has a line of its own
    if (class_->reading == RopeReading::mla && key == "mscale_all_dim") continue;
    if (class_->reading == RopeReading::hunyuan && key == "alpha" && type == RopeType::dynamic) continue;
    ignore(given.source);
    warn("{} has no effect: rope_type {} does not read it.", given.source, to_word(type));
  }
}

std::string RopeSetReader::set_path() const {
  const std::string where = text_.object_at("rope_scaling") ? "rope_scaling" : "rope_parameters";
  return path(set_layer_.empty() || where == "rope_scaling" ? where : where + "." + set_layer_);
}

LayerPositions RopeSetReader::resolve(std::string_view layer_type, RopeSet set, bool nested,
                                      std::optional<Given> attribute, std::optional<Sourced<std::int64_t>> rotary_dim) {
  set_layer_ = layer_type;
  attribute_ = std::move(attribute);
  LayerPositions layer;
  layer.layer_type = layer_type;
  layer.layout = class_->layout;
  Origins from;
  from.layout = encoding_source_;
  if (const json* interleave = top("rope_interleave"); interleave && !interleave->is_null()) {
    layer.layout = text_.boolean("rope_interleave", true) ? RopeLayout::interleaved : RopeLayout::half;
    from.layout = path("rope_interleave");
    if (!class_->interleave_key && layer.layout != class_->layout) {
      warn("{} is no key of {}: transformers ignores it and pairs channels as {}.", from.layout,
           text_.family().model_type, to_word(class_->layout));
    }
  }

  RopeScaling& rope = layer.rope;
  rope.rope_type = read_type(set);
  rope.rope_theta = required_number(set, "rope_theta");
  if (!(rope.rope_theta > 0)) {
    fail("{} must be above 0 but is {}", find(set, "rope_theta")->source, rope.rope_theta);
  }
  check_keys(set, rope.rope_type);
  const auto width = head_dim_of_layer(layer_type);
  rope.head_dim = width.value;
  from.head_dim = width.source;
  const json* null_head_dim = top("head_dim");
  if (null_head_dim && null_head_dim->is_null() && !class_->has_head_dim &&
      (rope.rope_type == RopeType::dynamic || rope.rope_type == RopeType::yarn ||
       rope.rope_type == RopeType::longrope)) {
    fail("{} is null, which rope_type {} of {} cannot use: leave the key out", path("head_dim"),
         to_word(rope.rope_type), text_.family().model_type);
  }
  if (max_positions_) rope.max_position_embeddings = static_cast<double>(max_positions_->value);

  const Sourced<double> partial = read_partial(set, rope.rope_type);
  rope.partial_rotary_factor = partial.value;
  from.partial = partial.source;
  if (!rotary_dim) {
    if (rope.rope_type == RopeType::proportional) {
      rotary_dim = {rope.head_dim, "derived: proportional spreads over the whole head"};
    } else {
      // Truncated, as Python's int().
      rotary_dim = {static_cast<std::int64_t>(static_cast<double>(rope.head_dim) * partial.value),
                    partial.value == 1 ? "derived: head_dim" : "derived: head_dim * partial_rotary_factor"};
    }
  }
  rope.rotary_dim = rotary_dim->value;
  from.rotary_dim = rotary_dim->source;
  check_width(rope);

  from.original = read_original(set, rope, nested);
  read_parameters(set, rope, nested);
  check_values(set, rope);
  if (class_->reading == RopeReading::mla && rope.rope_type != RopeType::default_) {
    layer.softmax_multiplier = mla_softmax_multiplier(rope);
  }
  read_alpha(set, rope);
  add_facts(layer, set, from, frequencies_of(rope).attention_factor);
  return layer;
}

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
  const bool alpha = rope.rope_type == RopeType::ntk && find(set, "alpha");
  if (alpha) add_key("alpha", text_of(*rope.factor), "");
  if (rope.factor && !alpha) {
    add_key("factor", text_of(*rope.factor), "derived: max_position_embeddings / original_max_position_embeddings");
  }
  if (rope.original_max_position_embeddings) {
    add(layer, "original_max_position_embeddings", text_of(*rope.original_max_position_embeddings), from.original);
  }
  if (rope.rope_type == RopeType::yarn || rope.rope_type == RopeType::ntk_by_parts) {
    add_key("beta_fast", text_of(rope.beta_fast), "rope_type default");
    add_key("beta_slow", text_of(rope.beta_slow), "rope_type default");
  }
  if (rope.rope_type == RopeType::yarn) {
    const Given* given = find(set, "truncate");
    add(layer, "truncate", rope.truncate ? "true" : "false",
        given && truthy(given->value) == rope.truncate ? given->source : "rope_type default");
    if (rope.mscale) add_key("mscale", text_of(*rope.mscale), "");
    if (rope.mscale_all_dim) add_key("mscale_all_dim", text_of(*rope.mscale_all_dim), "");
  }
  if (rope.rope_type == RopeType::llama3) {
    add_key("low_freq_factor", text_of(rope.low_freq_factor), "");
    add_key("high_freq_factor", text_of(rope.high_freq_factor), "");
  }
  if (rope.rope_type == RopeType::longrope) {
    add_key("short_factor", list_summary(rope.short_factor), "");
    add_key("long_factor", list_summary(rope.long_factor), "");
  }
  for (std::string_view key : {"mrope_section", "short_mscale", "long_mscale", "llama_4_scaling_beta"}) {
    if (const Given* g = find(set, key); g && has_word(class_->own_keys, key)) add_key(key, shown(g->value), "");
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

Sourced<double> RopeSetReader::read_partial(const RopeSet& set, RopeType type) {
  const Given* inner = find(set, "partial_rotary_factor");
  const bool scaled = type != RopeType::default_;
  if (scaled && attribute_ && inner && attribute_->value != inner->value) {
    warn("{} {} is overwritten by {} ({}), since rope_type is {}.", inner->source, shown(inner->value),
         shown(attribute_->value), attribute_->source, to_word(type));
    ignore(inner->source);
    inner = &*attribute_;
  } else if (attribute_ && inner && attribute_->value != inner->value &&
             attribute_->source == path("partial_rotary_factor")) {
    warn("{} is {} but {} is {}: {} counts.", attribute_->source, shown(attribute_->value), inner->source,
         shown(inner->value), inner->source);
    ignore(attribute_->source);
  }
  if (!inner) return {1, "derived: no partial_rotary_factor is given"};
  const double value = number(inner->value, inner->source);
  if (!scaled && !class_->default_type_is_partial && value != 1) {
    warn("{} {} has no effect: the default rope_type of {} turns the whole head (a scaled type would honour it).",
         inner->source, shown(inner->value), text_.family().model_type);
    ignore(inner->source);
    return {1, fmt::format("derived: rope_type default of {} turns the whole head", text_.family().model_type)};
  }
  return {value, inner->source};
}

void RopeSetReader::check_width(const RopeScaling& rope) {
  const double p = rope.partial_rotary_factor;
  if (!(p >= 0) || p > 1) {
    if (!(p > 0 && p <= 16)) fail("partial_rotary_factor must lie in (0, 1] but is {}", p);
    warn("partial_rotary_factor {} is above 1: the model fails at its first forward.", p);
  }
  if (rope.rotary_dim < 1) {
    fail("rotary_dim is {}: head_dim {} times partial_rotary_factor {}", rope.rotary_dim, rope.head_dim, p);
  }
  if (rope.rotary_dim % 2 != 0) {
    warn(
        "rotary_dim {} is odd (head_dim {} times partial_rotary_factor {}): there are {} frequencies, and the model "
        "fails at its first forward.",
        rope.rotary_dim, rope.head_dim, p, (rope.rotary_dim + 1) / 2);
  }
  if (rope.rotary_dim > 1'000'000) fail("rotary_dim {} is too large", rope.rotary_dim);
}

std::string RopeSetReader::read_original(const RopeSet& set, RopeScaling& rope, bool nested) {
  constexpr std::string_view name = "original_max_position_embeddings";
  if (!uses_original_length(rope.rope_type)) return "";
  const Given* inner = find(set, name);
  const json* outer = nested ? nullptr : top(name);
  if (outer && !outer->is_null()) {
    rope.original_max_position_embeddings = number(*outer, path(name));
    if (inner && inner->value != *outer) {
      warn("{} is {} but {} is {}: the top level wins.", inner->source, shown(inner->value), path(name), shown(*outer));
      ignore(inner->source);
    }
    return path(name);
  }
  if (class_->reading == RopeReading::phi3) {
    rope.original_max_position_embeddings = 4096;
    if (inner && inner->value != 4096) {
      warn("{} is {}, but Phi-3 reads it at the top level, where it is absent: 4096, its class default.", inner->source,
           shown(inner->value));
      ignore(inner->source);
    }
    return text_.class_default();
  }
  if (inner) {
    rope.original_max_position_embeddings = number(inner->value, inner->source);
    return inner->source;
  }
  if (!max_positions_) fail("{} is missing, and so is max_position_embeddings", set_path() + "." + std::string(name));
  rope.original_max_position_embeddings = static_cast<double>(max_positions_->value);
  warn("{}.{} is not given: max_position_embeddings {} is taken.", set_path(), name, max_positions_->value);
  return max_positions_->source;
}

void RopeSetReader::read_parameters(const RopeSet& set, RopeScaling& rope, bool nested) {
  switch (rope.rope_type) {
    case RopeType::default_:
      break;
    case RopeType::linear:
    case RopeType::dynamic:
    case RopeType::ntk:
      rope.factor = required_number(set, "factor");
      break;
    case RopeType::proportional:
      if (set.contains("factor")) rope.factor = required_number(set, "factor");
      break;
    case RopeType::yarn:
    case RopeType::ntk_by_parts:
      read_ramp(set, rope, nested);
      break;
    case RopeType::longrope:
      rope.factor = factor_or_ratio(set, rope);
      rope.attention_factor = optional_number(set, "attention_factor");
      rope.short_factor = list(set, "short_factor", rope);
      rope.long_factor = list(set, "long_factor", rope);
      break;
    case RopeType::llama3:
      rope.factor = required_number(set, "factor");
      rope.low_freq_factor = required_number(set, "low_freq_factor");
      rope.high_freq_factor = required_number(set, "high_freq_factor");
      break;
  }
  if (rope.rope_type == RopeType::dynamic && !max_positions_) {
    fail("{} is missing, which rope_type dynamic needs", path("max_position_embeddings"));
  }
  if (const Given* g = find(set, "attn_factor")) {
    const double given = number(g->value, g->source);
    ignore(g->source);
    warn(
        "{} {} has no effect: transformers reads attention_factor. As ggml reads it, it multiplies 0.1 ln(factor) + "
        "1, so that attention_factor would be {}.",
        g->source, given, given * yarn_mscale(rope.factor.value_or(1)));
  }
}

void RopeSetReader::read_ramp(const RopeSet& set, RopeScaling& rope, bool nested) {
  rope.factor = factor_or_ratio(set, rope);
  // `or 32` upstream: null and 0 are the default.
  const auto beta = [&](std::string_view key, double fallback) {
    const double given = optional_number(set, key).value_or(0);
    if (given < 0) fail("{} must be above 0 but is {}", find(set, key)->source, given);
    return given == 0 ? fallback : given;
  };
  rope.beta_fast = beta("beta_fast", 32);
  rope.beta_slow = beta("beta_slow", 1);
  if (rope.rope_type != RopeType::yarn) return;
  rope.attention_factor = optional_number(set, "attention_factor");
  rope.mscale = optional_number(set, "mscale");
  rope.mscale_all_dim = optional_number(set, "mscale_all_dim");
  if (const Given* g = find(set, "truncate")) {
    if (g->value.is_string()) fail("{} must be true or false but is {}", g->source, shown(g->value));
    rope.truncate = truthy(g->value);
    if (nested) {
      if (!rope.truncate) {
        warn("{} has no effect: transformers looks for truncate outside the layer type's set, so it stays true.",
             g->source);
        ignore(g->source);
      }
      rope.truncate = true;
    }
  }
  if (rope.rotary_dim % 2 != 0) fail("rotary_dim {} is odd, for which yarn's ramp has no shape", rope.rotary_dim);
  if (rope.rope_theta == 1) fail("rope_theta 1 leaves yarn's ramp without a value (it divides by ln(rope_theta))");
}

double RopeSetReader::factor_or_ratio(const RopeSet& set, const RopeScaling& rope) {
  if (const auto given = optional_number(set, "factor")) return *given;
  const double original = *rope.original_max_position_embeddings;
  if (!max_positions_) fail("factor is not given, and max_position_embeddings to derive it from is missing");
  if (!(original > 0)) fail("original_max_position_embeddings must be above 0 but is {}", original);
  const double ratio = static_cast<double>(max_positions_->value) / original;
  warn("factor is not given: max_position_embeddings {} / original_max_position_embeddings {} = {} is taken.",
       max_positions_->value, original, ratio);
  return ratio;
}

std::vector<double> RopeSetReader::list(const RopeSet& set, std::string_view key, const RopeScaling& rope) const {
  const Given& g = *find(set, key);
  if (!g.value.is_array()) fail("{} must be a list of numbers but is {}", g.source, shown(g.value));
  std::vector<double> out;
  for (const json& v : g.value) out.push_back(number(v, g.source));
  const auto pairs = static_cast<std::size_t>((rope.rotary_dim + 1) / 2);
  if (out.size() != pairs) fail("{} must have {} values, one per pair, but has {}", g.source, pairs, out.size());
  return out;
}

void RopeSetReader::check_values(const RopeSet& set, const RopeScaling& rope) {
  if (rope.rope_type == RopeType::default_) return;
  const Given* factor = find(set, "factor");
  if (factor && factor->value.is_number() && !(*rope.factor >= 1)) {
    warn("{} is {}, below 1: it squeezes positions further apart instead of stretching the context.", factor->source,
         *rope.factor);
  }
  if (rope.attention_factor) {
    const Given* g = find(set, "attention_factor");
    if (*rope.attention_factor < 0) warn("{} is {}, below 0.", g->source, *rope.attention_factor);
    if (rope.rope_type == RopeType::yarn && g->value.is_number_integer()) {
      warn("{} {} is an integer, where transformers expects a real number.", g->source, shown(g->value));
    }
  }
  if (rope.rope_type == RopeType::proportional && !set.contains("partial_rotary_factor")) {
    warn("partial_rotary_factor is not given: proportional turns every pair, as linear does.");
  }
  if (rope.rope_type == RopeType::yarn) {
    if (rope.beta_fast < rope.beta_slow) {
      warn("beta_fast {} is below beta_slow {}: the ramp runs backwards.", rope.beta_fast, rope.beta_slow);
    }
    check_ratio(set, rope);
  }
  if (rope.rope_type == RopeType::llama3) {
    if (rope.high_freq_factor <= rope.low_freq_factor) {
      warn("high_freq_factor {} is not above low_freq_factor {}.", rope.high_freq_factor, rope.low_freq_factor);
    }
    if (const Given* g = find(set, "original_max_position_embeddings"); g && !g->value.is_number_integer()) {
      warn("{} {} is not an integer.", g->source, shown(g->value));
    }
    if (max_positions_ && *rope.original_max_position_embeddings >= static_cast<double>(max_positions_->value)) {
      warn("original_max_position_embeddings {} is not below max_position_embeddings {}.",
           *rope.original_max_position_embeddings, max_positions_->value);
    }
  }
  if (rope.rope_type == RopeType::longrope && *rope.original_max_position_embeddings <= 1) {
    fail("original_max_position_embeddings must be above 1 for longrope but is {}",
         *rope.original_max_position_embeddings);
  }
  if (class_->reading == RopeReading::phimoe) {
    for (std::string_view key : {"short_mscale", "long_mscale"}) {
      const Given* g = find(set, key);
      if (!g) fail("{}.{} is missing, which a scaled PhiMoE needs", set_path(), key);
      number(g->value, g->source);
    }
    warn("PhiMoE multiplies cos and sin by short_mscale or long_mscale; the attention factor shown is the formula's.");
  }
  if (const Given* g = find(set, "llama_4_scaling_beta"); g && has_word(class_->own_keys, "llama_4_scaling_beta")) {
    warn("{} {} multiplies queries by a factor that grows with their position; it is no part of the attention factor.",
         g->source, shown(g->value));
  }
}

void RopeSetReader::check_ratio(const RopeSet& set, const RopeScaling& rope) {
  const Given* inner = find(set, "original_max_position_embeddings");
  const Given* factor = find(set, "factor");
  if (!inner || !max_positions_ || factor->value.is_null()) return;
  const double original = number(inner->value, inner->source);
  if (original == 0) fail("{} must be above 0 but is 0", inner->source);
  const double ratio = static_cast<double>(max_positions_->value) / original;
  if (ratio == *rope.factor || ratio == 1) return;
  warn("{} is {} but max_position_embeddings {} / {} {} = {}: the factor given is used.", factor->source, *rope.factor,
       max_positions_->value, inner->source, original, ratio);
}

void RopeSetReader::read_alpha(const RopeSet& set, RopeScaling& rope) {
  if (class_->reading != RopeReading::hunyuan || rope.rope_type != RopeType::dynamic) return;
  const Given* g = find(set, "alpha");
  if (!g || !truthy(g->value)) return;
  rope.rope_type = RopeType::ntk;
  rope.factor = number(g->value, g->source);
  rope.rotary_dim = rope.head_dim;
  warn(
      "{} makes rope_type dynamic a fixed base, rope_theta * alpha^(dim / (dim - 2)), which poslab calls ntk; beyond "
      "max_position_embeddings transformers turns to plain dynamic, without alpha.",
      g->source);
}

RopeFrequencies RopeSetReader::frequencies_of(const RopeScaling& rope) const {
  try {
    return rope_frequencies(rope);
  } catch (const std::invalid_argument& e) {
    std::string_view what = e.what();
    if (const auto end = what.find("] "); end != what.npos) what.remove_prefix(end + 2);
    while (!what.empty() && what.back() == '.') what.remove_suffix(1);
    fail("{}", what);
  }
}

std::string RopeSetReader::attention_factor_rule(const RopeScaling& rope) {
  if (rope.rope_type == RopeType::longrope) return "derived: sqrt(1 + ln(factor) / ln(original)) where factor > 1";
  if (rope.rope_type != RopeType::yarn) return fmt::format("derived: 1 for rope_type {}", to_word(rope.rope_type));
  if (rope.mscale.value_or(0) != 0 && rope.mscale_all_dim.value_or(0) != 0) {
    return "derived: (0.1 mscale ln(factor) + 1) / (0.1 mscale_all_dim ln(factor) + 1)";
  }
  return "derived: 0.1 ln(factor) + 1";
}

}  // namespace poslab
