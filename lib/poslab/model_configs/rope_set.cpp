#include "poslab/model_configs/rope_set.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>

#include "poslab/core/suggestion.h"
#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> keys) {
  return std::ranges::find(keys, key) != keys.end();
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

  if (class_->reading == RopeReading::phi3 && (word == "su" || word == yarn_scaling.word)) {
    warn("{} {} is an older name: Phi-3 takes it for {}.", type_.source, shown(type_.value), longrope_scaling.word);
    // The older name is not yet known when a missing length is filled in.
    if (word == "su" && !set.contains("original_max_position_embeddings")) {
      fail("{} is missing, which type su needs", path("rope_scaling.original_max_position_embeddings"));
    }
    word = longrope_scaling.word;
  }
  if (class_->reading == RopeReading::phi3 && word != "default" && word != longrope_scaling.word) {
    fail("{} must be {} for Phi-3 but is {}", type_.source, longrope_scaling.word, shown(type_.value));
  }
  if (class_->reading == RopeReading::qwen_vl && word == "mrope") {
    warn("{} \"mrope\" is an older name for default, with positions of three kinds.", type_.source);
    word = "default";
  }
  for (const Scaling* row : all_scalings) {
    if (row->word != word) continue;
    if (!row->config.in_transformers) {
      warn("{} {} is not known to transformers, which refuses the model; the formula is poslab's.", type_.source,
           shown(type_.value));
    }
    return *row;
  }
  if (word == "mrope") fail("{} is \"mrope\", which only Qwen2-VL's config reads", type_.source);
  fail("{} is {}, which is no rope_type{}", type_.source, shown(type_.value), suggestion(word, all_words<RopeType>()));
}

bool RopeSetReader::is_own_key(std::string_view key) const {
  for (std::string_view keys = class_->own_keys; !keys.empty();) {
    const auto end = std::min(keys.find(' '), keys.size());
    if (keys.substr(0, end) == key) return true;
    keys.remove_prefix(std::min(end + 1, keys.size()));
  }
  return false;
}

void RopeSetReader::check_keys(const RopeSet& set, RopeType type) {
  std::vector<std::string> missing;
  for (const std::string_view key : type->config.required) {
    if (!set.contains(key)) missing.emplace_back(key);
  }
  if (!missing.empty()) {
    fail("{} missing in {}, which rope_type {} needs",
         missing.size() == 1 ? missing.front() + " is" : fmt::format("{} are", fmt::join(missing, ", ")), set_path(),
         to_word(type));
  }
  for (const auto& [key, given] : set) {
    if (is_one_of(key, {"rope_type", "type", "rope_theta", "partial_rotary_factor"}) || type->has_key(key) ||
        is_own_key(key))
      continue;
    if (key == "attn_factor") continue;                                  // has a line of its own
    if (key == "mrope_section" || key == "mrope_interleaved") continue;  // read_sections
    if (class_->reading == RopeReading::mla && key == "mscale_all_dim") continue;
    if (class_->reading == RopeReading::hunyuan && key == "alpha" && type->config.with_alpha) continue;
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
      rope.rope_type->config.uses_head_dim_as_is) {
    fail("{} is null, which rope_type {} of {} cannot use: leave the key out", path("head_dim"),
         to_word(rope.rope_type), text_.family().model_type);
  }
  if (max_positions_) rope.max_position_embeddings = static_cast<double>(max_positions_->value);

  const Sourced<double> partial = read_partial(set, rope.rope_type);
  rope.partial_rotary_factor = partial.value;
  from.partial = partial.source;
  if (!rotary_dim) {
    if (rope.rope_type->spreads_over_head) {
      rotary_dim = {rope.head_dim, fmt::format("derived: {} spreads over the whole head", rope.rope_type.word())};
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
  if (class_->reading == RopeReading::mla && rope.rope_type.is_scaled()) {
    layer.softmax_multiplier = mla_softmax_multiplier(rope);
  }
  read_alpha(set, rope);
  add_facts(layer, set, from, frequencies_of(rope).attention_factor);
  read_sections(layer, set);
  return layer;
}

Sourced<double> RopeSetReader::read_partial(const RopeSet& set, RopeType type) {
  const Given* inner = find(set, "partial_rotary_factor");
  const bool scaled = type.is_scaled();
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
  if (!rope.rope_type->has_key(name)) return "";
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
  const RopeType type = rope.rope_type;
  if (type->config.factor_from_lengths) {
    rope.factor = factor_or_ratio(set, rope);
  } else if (type->has_key("factor") && set.contains("factor")) {
    rope.factor = required_number(set, "factor");
  }
  const auto read = [&](std::string_view key, auto, auto, auto& value) {
    using T = std::decay_t<decltype(value)>;
    if (is_one_of(key, {"factor", "original_max_position_embeddings"}) || !type->has_key(key)) return;
    if constexpr (std::is_same_v<T, std::optional<double>>) {
      value = optional_number(set, key);
    } else if constexpr (std::is_same_v<T, double>) {
      value = std::ranges::count(type->config.required, key) ? required_number(set, key) : number_or(set, key, value);
    } else if constexpr (std::is_same_v<T, std::vector<double>>) {
      value = list(set, key, rope);
    } else if constexpr (std::is_same_v<T, bool>) {
      read_switch(set, key, nested, value);
    }
  };
  RopeScaling::each({}, read, rope);
  if (type->config.error) {
    if (const std::string why = type->config.error(rope); !why.empty()) fail("{}", why);
  }
  if (type->trained_on_stated_length && !max_positions_) {
    fail("{} is missing, which rope_type {} needs", path("max_position_embeddings"), type.word());
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

// `or 32` upstream: null and 0 are the default.
double RopeSetReader::number_or(const RopeSet& set, std::string_view key, double usual) {
  const double given = optional_number(set, key).value_or(0);
  if (given < 0) fail("{} must be above 0 but is {}", find(set, key)->source, given);
  return given == 0 ? usual : given;
}

void RopeSetReader::read_switch(const RopeSet& set, std::string_view key, bool nested, bool& value) {
  const Given* g = find(set, key);
  if (!g) return;
  if (g->value.is_string()) fail("{} must be true or false but is {}", g->source, shown(g->value));
  if (nested && value && !truthy(g->value)) {
    warn("{} has no effect: transformers looks for {} outside the layer type's set, so it stays true.", g->source, key);
    ignore(g->source);
  } else if (!nested) {
    value = truthy(g->value);
  }
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
  const RopeType type = rope.rope_type;
  if (!type.is_scaled()) return;
  const Given* factor = find(set, "factor");
  if (factor && factor->value.is_number() && rope.factor && !(*rope.factor >= 1)) {
    warn("{} is {}, below 1: it squeezes positions further apart instead of stretching the context.", factor->source,
         *rope.factor);
  }
  if (rope.attention_factor && *rope.attention_factor < 0) {
    warn("{} is {}, below 0.", find(set, "attention_factor")->source, *rope.attention_factor);
  }
  for (const std::string_view key : type->config.reals) {
    const Given* g = find(set, key);
    if (!g || !g->value.is_number_integer()) continue;
    warn("{} {} is an integer, where transformers expects a real number.", g->source, shown(g->value));
  }
  for (const std::string_view key : type->config.integers) {
    const Given* g = find(set, key);
    if (g && !g->value.is_number_integer()) warn("{} {} is not an integer.", g->source, shown(g->value));
  }
  if (type->spreads_over_head && !set.contains("partial_rotary_factor")) {
    warn("partial_rotary_factor is not given: {} turns every pair, as linear does.", type.word());
  }
  if (type->config.doubts) {
    for (const std::string& doubt : type->config.doubts(rope)) warn("{}", doubt);
  }
  if (type->config.compares_lengths) check_ratio(set, rope);
  if (class_->reading == RopeReading::phimoe) {
    for (std::string_view key : {"short_mscale", "long_mscale"}) {
      const Given* g = find(set, key);
      if (!g) fail("{}.{} is missing, which a scaled PhiMoE needs", set_path(), key);
      number(g->value, g->source);
    }
    warn("PhiMoE multiplies cos and sin by short_mscale or long_mscale; the attention factor shown is the formula's.");
  }
  if (const Given* g = find(set, "llama_4_scaling_beta"); g && is_own_key("llama_4_scaling_beta")) {
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
  alpha_is_factor_ = false;
  const Scaling* with_alpha = rope.rope_type->config.with_alpha;
  if (class_->reading != RopeReading::hunyuan || !with_alpha) return;
  const Given* g = find(set, "alpha");
  if (!g || !truthy(g->value)) return;
  const RopeType without = rope.rope_type;
  rope.rope_type = *with_alpha;
  alpha_is_factor_ = true;
  rope.factor = number(g->value, g->source);
  rope.rotary_dim = rope.head_dim;
  warn(
      "{} makes rope_type {} a fixed base, rope_theta * alpha^(dim / (dim - 2)), which poslab calls {}; beyond "
      "max_position_embeddings transformers turns to plain {}, without alpha.",
      g->source, without.word(), with_alpha->word, without.word());
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

}  // namespace poslab
