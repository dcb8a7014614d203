#include "poslab/model_configs/gguf_rope.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "poslab/core/printable.h"
#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

double longrope_factor(const RopeScaling& rope, std::optional<double> factor) {
  if (factor) return *factor;
  if (rope.max_position_embeddings && rope.original_max_position_embeddings) {
    return *rope.max_position_embeddings / *rope.original_max_position_embeddings;
  }
  return 1;
}

}  // namespace

LayerPositions GgufRopeReader::read(std::string_view layer_type) {
  const bool sliding = layer_type == "sliding_attention";
  LayerPositions layer;
  layer.layer_type = layer_type;
  layer.layout = architecture_->layout;
  RopeScaling& rope = layer.rope;
  layer.add("encoding", "rope", keys_.architecture_source());
  layer.add("layout", std::string(to_word(layer.layout)),
            keys_.architecture_source() + (layer.layout == RopeLayout::interleaved ? ": q and k are stored so" : ""));

  read_width(layer);
  read_theta(layer, sliding);
  if (out_.max_position_embeddings) {
    rope.max_position_embeddings = static_cast<double>(*out_.max_position_embeddings);
  }
  if (sliding && !architecture_->sliding.scaled) {
    layer.add("rope_type", "default", "sliding layers are not scaled");
  } else {
    read_scaling(layer);
  }
  if (window_.tokens() && layer_type != "full_attention") add_window(layer);
  if (const std::int64_t period = architecture_->nope_period;
      period > 0 && (window_.tokens() || !window_.switched_to_full())) {
    layer.add("layers_without_rope", fmt::format("every {}th", period), "llama.cpp's rule for " + out_.model_type);
  }
  return layer;
}

void GgufRopeReader::read_width(LayerPositions& layer) const {
  RopeScaling& rope = layer.rope;
  std::string source = keys_.key("attention.key_length");
  if (architecture_->latent) {
    rope.head_dim = keys_.required(keys_.size("rope.dimension_count"), "rope.dimension_count");
    source = "the part of a head that turns: " + keys_.key("rope.dimension_count");
  } else if (const auto width = keys_.size("attention.key_length")) {
    rope.head_dim = *width;
  } else {
    const std::int64_t hidden = keys_.required(out_.hidden_size, "embedding_length");
    const std::int64_t heads = keys_.required(out_.n_heads, "attention.head_count");
    if (hidden % heads != 0) keys_.fail(fmt::format("{} heads do not divide the width {}", heads, hidden));
    rope.head_dim = hidden / heads;
    source = "derived: embedding_length / head_count";
  }
  layer.add("head_dim", std::to_string(rope.head_dim), source);
  const auto turning = keys_.size("rope.dimension_count");
  rope.rotary_dim = turning.value_or(rope.head_dim);
  if (rope.rotary_dim > rope.head_dim || rope.rotary_dim % 2 != 0) {
    keys_.fail(fmt::format("{} must be even and at most the head's {} channels but is {}",
                           keys_.key("rope.dimension_count"), rope.head_dim, rope.rotary_dim));
  }
  rope.partial_rotary_factor = static_cast<double>(rope.rotary_dim) / static_cast<double>(rope.head_dim);
  layer.add("rotary_dim", std::to_string(rope.rotary_dim),
            turning ? keys_.key("rope.dimension_count") : "derived: head_dim");
}

std::vector<double> GgufRopeReader::pair_factors(std::string_view name, std::int64_t pairs) const {
  const GgufTensor* tensor = file_->find_tensor(name);
  if (!tensor) return {};
  if (tensor->size != pairs) {
    keys_.fail(fmt::format("{} has {} numbers for {} pairs", name, tensor->size, pairs));
  }
  std::vector<float> values(static_cast<std::size_t>(pairs));
  file_->read(*tensor, values);
  for (float v : values) {
    if (!(v > 0 && std::isfinite(v))) keys_.fail(fmt::format("{} holds {}, which divides no frequency", name, v));
  }
  return {values.begin(), values.end()};
}

void GgufRopeReader::add_window(LayerPositions& layer) const {
  const SlidingLayers& sliding = architecture_->sliding;
  const std::string own_rule = "llama.cpp's rule for " + out_.model_type;
  layer.add(sliding.chunked ? "attention_chunk_size" : "sliding_window", std::to_string(*window_.tokens()),
            !sliding.chunked && window_.given() ? keys_.key("attention.sliding_window") : own_rule);
  if (const std::vector<bool> listed = window_.listed_layers(); !listed.empty()) {
    const auto count = std::count(listed.begin(), listed.end(), true);
    layer.add("sliding_layers", fmt::format("{} of {}", count, listed.size()), window_.pattern_key());
    return;
  }
  const std::int64_t period = window_.period();
  layer.add("sliding_layers", period == 0 ? "all" : fmt::format("{} of {}", period - 1, period),
            file_->find_value(window_.pattern_key()) ? window_.pattern_key() : own_rule);
}

void GgufRopeReader::read_theta(LayerPositions& layer, bool sliding) const {
  const auto base = keys_.positive("rope.freq_base"), own = keys_.positive("rope.freq_base_swa");
  if (sliding) {
    const double fallback = architecture_->sliding.rope_theta;
    layer.rope.rope_theta = own.value_or(fallback > 0 ? fallback : base.value_or(10000));
    layer.add("rope_theta", fmt::format("{}", layer.rope.rope_theta),
              own            ? keys_.key("rope.freq_base_swa")
              : fallback > 0 ? fmt::format("llama.cpp's default of {}", architecture_->name)
                             : "as in full layers");
    return;
  }
  layer.rope.rope_theta = base.value_or(10000);
  layer.add("rope_theta", fmt::format("{}", layer.rope.rope_theta),
            base ? keys_.key("rope.freq_base") : "llama.cpp's default");
}

RopeType GgufRopeReader::scaling_type(std::string_view type) const {
  if (type == "none") return {};
  std::vector<std::string_view> known = {"none"};
  for (const Scaling* row : all_scalings) {
    if (!row->engines.in_gguf) continue;
    if (row->word == type) return *row;
    known.push_back(row->word);
  }
  const std::string_view last = known.back();
  known.pop_back();
  keys_.fail(fmt::format("{} is {}; {} and {} are known", keys_.key("rope.scaling.type"), printable(type),
                         fmt::join(known, ", "), last));
}

void GgufRopeReader::read_scaling(LayerPositions& layer) {
  RopeScaling& rope = layer.rope;
  const auto given_type = file_->text(keys_.key("rope.scaling.type"));
  std::string factor_key = keys_.key("rope.scaling.factor");
  std::optional<double> factor = file_->number(factor_key);
  if (!factor) factor = file_->number(factor_key = keys_.key("rope.scale_linear"));
  if (factor && !(*factor >= 0 && std::isfinite(*factor)))
    keys_.fail(fmt::format("{} must be 0 or more but is {}", factor_key, *factor));
  if (factor == 0.0) factor.reset();
  const std::string_view type = given_type.value_or(factor ? "linear" : "none");
  const std::string type_source = given_type ? keys_.key("rope.scaling.type") : factor ? factor_key : "none is named";
  const std::int64_t pairs = rope.rotary_dim / 2;
  const auto all = pair_factors("rope_freqs.weight", pairs);
  const auto lows = pair_factors("rope_factors_short.weight", pairs);
  const auto highs = pair_factors("rope_factors_long.weight", pairs);
  if (lows.empty() != highs.empty())
    keys_.fail("has only one of rope_factors_short.weight and rope_factors_long.weight");
  const double attention = keys_.positive("rope.scaling.attn_factor").value_or(1);
  const RopeType named = scaling_type(type);
  if (out_.trained_length) rope.original_max_position_embeddings = static_cast<double>(*out_.trained_length);

  if (!lows.empty() || !all.empty()) {
    if (named->engines.attention_formula) {
      keys_.fail(fmt::format("has frequency factors and {} together, which is not supported", named->title));
    }
    rope.rope_type = longrope_scaling;
    rope.short_factor = lows.empty() ? all : lows;
    rope.long_factor = lows.empty() ? all : highs;
    if (named == linear_scaling && factor) {
      for (auto* list : {&rope.short_factor, &rope.long_factor}) {
        for (double& v : *list) v *= *factor;
      }
    }
    rope.factor = longrope_factor(rope, factor);
    rope.attention_factor = attention;
    layer.add("rope_type", std::string(rope.rope_type.word()),
              lows.empty() ? "rope_freqs.weight divides each frequency"
                           : "rope_factors_short.weight, rope_factors_long.weight");
  } else if (named->engines.attention_formula && factor) {
    rope.rope_type = named;
    rope.factor = factor;
    read_attention(layer, attention);
    layer.add("rope_type", std::string(type), type_source);
    read_beta(layer, "beta_fast", rope.beta_fast);
    read_beta(layer, "beta_slow", rope.beta_slow);
  } else if (factor && *factor != 1 && named.is_scaled()) {
    rope.rope_type = linear_scaling;
    rope.factor = factor;
    layer.add("rope_type", std::string(rope.rope_type.word()), type_source);
  } else {
    layer.add("rope_type", "default", type_source);
  }
  if (named.is_scaled() && named != linear_scaling && !factor && !rope.rope_type.is_scaled()) {
    out_.warnings.push_back(fmt::format("{} is {} but there is no factor, so nothing is scaled.",
                                        keys_.key("rope.scaling.type"), printable(type)));
  }
  if (!rope.rope_type.is_scaled()) rope.original_max_position_embeddings.reset();
  if (rope.factor && factor) layer.add("factor", fmt::format("{}", *rope.factor), factor_key);
  if (!rope.short_factor.empty()) {
    layer.add("attention_factor", fmt::format("{}", *rope.attention_factor), "rope.scaling.attn_factor, else 1");
  } else if (!rope.rope_type->engines.attention_formula && attention != 1) {
    out_.warnings.push_back(fmt::format("{} {} is not followed: rope_type {} has no attention factor.",
                                        keys_.key("rope.scaling.attn_factor"), attention, to_word(rope.rope_type)));
  }
}

void GgufRopeReader::read_beta(LayerPositions& layer, std::string_view name, double& beta) {
  const std::string from = keys_.key(fmt::format("rope.scaling.yarn_{}", name));
  const double given = keys_.positive(fmt::format("rope.scaling.yarn_{}", name)).value_or(beta);
  if (given != beta && !architecture_->reads_yarn_keys) {
    out_.warnings.push_back(
        fmt::format("{} {} is followed, as the model's config means it; llama.cpp takes {}.", from, given, beta));
  }
  layer.add(std::string(name), fmt::format("{}", given), file_->find_value(from) ? from : "rope_type default");
  beta = given;
}

void GgufRopeReader::read_attention(LayerPositions& layer, double attention) {
  const double factor = *layer.rope.factor;
  const std::string_view title = layer.rope.rope_type->title;
  const std::string log_key = keys_.key("rope.scaling.yarn_log_multiplier"),
                    own_key = keys_.key("rope.scaling.yarn_attn_factor");
  const bool followed = architecture_->latent || architecture_->reads_yarn_keys;
  double all_dim = followed ? file_->number(log_key).value_or(0) : 0;
  if (!std::isfinite(all_dim)) keys_.fail(fmt::format("{} must be finite but is {}", log_key, all_dim));
  if (architecture_->latent) all_dim = static_cast<float>(all_dim / 0.1);
  double ratio = yarn_mscale(factor);
  if (all_dim != 0) ratio = architecture_->latent ? 1 : ratio / yarn_mscale(factor, all_dim);
  const auto own = keys_.positive("rope.scaling.yarn_attn_factor");
  if (own && std::abs(*own - ratio) > 1e-6 * ratio) {
    out_.warnings.push_back(
        fmt::format("{} {} is followed, as the model's config means it; llama.cpp takes {}'s own, {}.", own_key, *own,
                    title, ratio));
  }
  layer.rope.attention_factor = attention * own.value_or(ratio);
  layer.add("attention_factor", fmt::format("{}", *layer.rope.attention_factor),
            own ? own_key : fmt::format("derived: rope.scaling.attn_factor and {}'s own, 0.1 ln factor + 1", title));
  if (architecture_->latent) {
    const double mscale = attention * ratio * (1 + 0.1 * all_dim * std::log(factor));
    layer.softmax_multiplier = mscale * mscale;
    layer.add("softmax_multiplier", fmt::format("{}", layer.softmax_multiplier),
              fmt::format("derived: (attention_factor * (1 + {} ln factor))^2", 0.1 * all_dim));
  }
  for (const std::string& unread : {followed ? "" : log_key, keys_.key("rope.scaling.yarn_ext_factor")}) {
    if (file_->find_value(unread)) out_.warnings.push_back(fmt::format("{} is not followed.", unread));
  }
}

}  // namespace poslab
