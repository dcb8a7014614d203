#include "poslab/models/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "poslab/models/score_bias.h"

namespace poslab {

void check_config(const TransformerConfig& c) {
  const auto check = [](bool good, const std::string& sentence) {
    if (!good) throw std::invalid_argument("[transformer] " + sentence);
  };
  const auto within = [&](const char* name, std::int64_t value, std::int64_t most) {
    check(value >= 1 && value <= most, fmt::format("{} must be 1 .. {} but got {}.", name, most, value));
  };
  within("vocab_size", c.vocab_size, 1 << 24);
  within("d_model", c.d_model, 1 << 16);
  within("n_layers", c.n_layers, 1 << 10);
  within("n_heads", c.n_heads, 1 << 12);
  within("n_kv_heads", c.n_kv_heads, c.n_heads);
  within("head_dim", c.head_dim, 1 << 14);
  within("d_ff", c.d_ff, 1 << 20);
  within("max_position_embeddings", c.max_position_embeddings, 1 << 28);
  check(c.n_heads % c.n_kv_heads == 0,
        fmt::format("n_heads {} is not a multiple of n_kv_heads {}.", c.n_heads, c.n_kv_heads));
  check(std::isfinite(c.norm_eps) && c.norm_eps > 0, fmt::format("norm_eps must be above 0 but got {}.", c.norm_eps));
  check(std::isfinite(c.fire_length) && c.fire_length > 0,
        fmt::format("fire_length must be above 0 but got {}.", c.fire_length));
  check(c.attention_window >= 0, fmt::format("attention_window must be 0 or more but got {}.", c.attention_window));
  if (turns_pairs(c.encoding)) {
    check(c.rope.rotary_dim >= 2 && c.rope.rotary_dim % 2 == 0 && c.rope.rotary_dim <= c.head_dim,
          fmt::format("rotary_dim must be even and 2 .. {} (head_dim) but is {}.", c.head_dim, c.rope.rotary_dim));
  }
}

std::int64_t ParameterLayout::add(std::string name, std::vector<std::int64_t> shape) {
  std::int64_t size = 1;
  for (std::int64_t length : shape) size *= length;
  if (size_ + size > std::int64_t{1} << 34) {
    throw std::invalid_argument(
        fmt::format("[transformer] the model has more than {} parameters.", std::int64_t{1} << 34));
  }
  specs_.push_back({std::move(name), std::move(shape), size_, size});
  size_ += size;
  return size_ - size;
}

ParameterLayout::ParameterLayout(const TransformerConfig& c) {
  check_config(c);
  const std::int64_t d = c.d_model;
  embed = add("model.embed_tokens.weight", {c.vocab_size, d});
  if (c.encoding == PositionEncoding::learned) {
    positions = add("model.embed_positions.weight", {c.max_position_embeddings, d});
  }
  for (const ScoreBiasTensor& tensor : score_bias_tensors(c.encoding, c.n_heads)) {
    const std::int64_t offset = add("model." + tensor.name, tensor.shape);
    if (score_bias < 0) score_bias = offset;
    score_bias_size = size_ - score_bias;
  }
  const auto add_norm = [&](const std::string& name, std::int64_t& weight, std::int64_t& bias) {
    weight = add(name + ".weight", {d});
    if (c.norm == NormKind::layer_norm) bias = add(name + ".bias", {d});
  };
  layers_begin_ = size_;
  for (std::int64_t layer = 0; layer < c.n_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    LayerOffsets at;
    // Maps of one input stand side by side, their weights first, so that one product serves them all.
    const auto add_linear = [&](std::vector<std::pair<std::string, std::int64_t>> maps, std::int64_t in,
                                std::int64_t& weight, std::int64_t& bias) {
      weight = size_;
      for (const auto& [name, out] : maps) add(prefix + name + ".weight", {out, in});
      if (!c.biases) return;
      bias = size_;
      for (const auto& [name, out] : maps) add(prefix + name + ".bias", {out});
    };
    add_norm(prefix + "input_layernorm", at.norm1_weight, at.norm1_bias);
    add_linear({{"self_attn.q_proj", c.attention_width()},
                {"self_attn.k_proj", c.kv_width()},
                {"self_attn.v_proj", c.kv_width()}},
               d, at.qkv_weight, at.qkv_bias);
    add_linear({{"self_attn.o_proj", d}}, c.attention_width(), at.o_weight, at.o_bias);
    add_norm(prefix + "post_attention_layernorm", at.norm2_weight, at.norm2_bias);
    if (c.mlp == MlpKind::swiglu) {
      add_linear({{"mlp.gate_proj", c.d_ff}, {"mlp.up_proj", c.d_ff}}, d, at.up_weight, at.up_bias);
    } else {
      add_linear({{"mlp.up_proj", c.d_ff}}, d, at.up_weight, at.up_bias);
    }
    add_linear({{"mlp.down_proj", d}}, c.d_ff, at.down_weight, at.down_bias);
    if (layer > 0) continue;
    layer_size_ = size_ - layers_begin_;
    for (std::int64_t* offset :
         {&at.norm1_weight, &at.norm1_bias, &at.qkv_weight, &at.qkv_bias, &at.o_weight, &at.o_bias, &at.norm2_weight,
          &at.norm2_bias, &at.up_weight, &at.up_bias, &at.down_weight, &at.down_bias}) {
      if (*offset >= 0) *offset -= layers_begin_;
    }
    in_layer_ = at;
  }
  add_norm("model.norm", norm_weight, norm_bias);
  head = c.tied_head ? embed : add("lm_head.weight", {c.vocab_size, d});
}

const ParameterSpec& ParameterLayout::spec(const std::string& name) const {
  const auto found = std::find_if(specs_.begin(), specs_.end(), [&](const auto& s) { return s.name == name; });
  if (found == specs_.end()) {
    throw std::invalid_argument(fmt::format("[parameters] the model has no tensor {}.", name));
  }
  return *found;
}

std::vector<double> initial_parameters(const TransformerConfig& config, Generator& generator) {
  const ParameterLayout layout(config);
  std::vector<double> values(static_cast<std::size_t>(layout.size()));
  const double residual = 1 / std::sqrt(2 * static_cast<double>(config.n_layers));
  for (const ParameterSpec& spec : layout.specs()) {
    const auto part =
        std::span(values).subspan(static_cast<std::size_t>(spec.offset), static_cast<std::size_t>(spec.size));
    if (spec.offset == layout.score_bias) {
      initialise_score_bias(config.encoding, config.n_heads, generator,
                            std::span(values).subspan(static_cast<std::size_t>(layout.score_bias),
                                                      static_cast<std::size_t>(layout.score_bias_size)));
    }
    if (spec.offset >= layout.score_bias && spec.offset < layout.score_bias + layout.score_bias_size) continue;
    if (spec.shape.size() < 2) {
      std::fill(part.begin(), part.end(), spec.name.ends_with("norm.weight") ? 1.0 : 0.0);
      continue;
    }
    const bool writes_residual = spec.name.ends_with("o_proj.weight") || spec.name.ends_with("down_proj.weight");
    generator.standard_normal(part);
    for (double& value : part) value *= writes_residual ? 0.02 * residual : 0.02;
  }
  return values;
}

}  // namespace poslab
