#include "poslab/models/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

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
  check(c.attention_window >= 0, fmt::format("attention_window must be 0 or more but got {}.", c.attention_window));
  const auto check_pairs = [&](const RopeScaling& rope) {
    check(rope.rotary_dim >= 2 && rope.rotary_dim % 2 == 0 && rope.rotary_dim <= c.head_dim,
          fmt::format("rotary_dim must be even and 2 .. {} (head_dim) but is {}.", c.head_dim, rope.rotary_dim));
  };
  if (c.encoding->acts_on(Place::rotation)) check_pairs(c.rope);
  const auto above_zero = [&](const char* name, double value) {
    check(std::isfinite(value) && value > 0, fmt::format("{} must be above 0 but got {}.", name, value));
  };
  check(!(c.post_norms && c.parallel_residual), "norms behind attention and MLP do not go with parallel residuals.");
  above_zero("embedding_scale", c.embedding_scale);
  c.encoding->check(method_model(c));
  above_zero("query_scale", c.query_scale.value_or(1));
  above_zero("qkv_clip", c.qkv_clip.value_or(1));
  if (c.local_layers.empty()) return;
  check(std::ssize(c.local_layers) == c.n_layers,
        fmt::format("there are {} layers but {} say whether they are local.", c.n_layers, c.local_layers.size()));
  check(c.local_window >= 0, fmt::format("local_window must be 0 or more but got {}.", c.local_window));
  if (c.encoding->acts_on(Place::rotation)) check_pairs(c.local_rope);
}

std::string untrainable(const TransformerConfig& c) {
  if (c.qk_norm) return "norms of queries and keys";
  if (c.post_norms) return "norms behind attention and MLP";
  if (c.parallel_residual) return "parallel residuals";
  if (c.embedding_norm || c.embedding_scale != 1) return "a norm or scale of the token vectors";
  if (c.query_scale) return "a scale of the queries";
  if (c.qkv_clip) return "clipped queries, keys and values";
  if (!c.local_layers.empty()) return "local layers";
  if (c.mlp == MlpKind::gelu_tanh || c.mlp == MlpKind::geglu_tanh) return "the tanh form of GELU";
  return "";
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
  for (const MethodTensor& tensor : c.encoding->tensors(method_model(c))) {
    const std::int64_t offset = add("model." + tensor.name, tensor.shape);
    if (method < 0) method = offset;
    method_size = size_ - method;
  }
  const auto add_norm = [&](const std::string& name, std::int64_t& weight, std::int64_t& bias) {
    weight = add(name + ".weight", {d});
    if (c.norm == NormKind::layer_norm) bias = add(name + ".bias", {d});
  };
  if (c.embedding_norm) add_norm("model.embed_layernorm", embed_norm_weight, embed_norm_bias);
  layers_begin_ = size_;
  for (std::int64_t layer = 0; layer < c.n_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    LayerOffsets at;
    // Maps of one input stand side by side, their weights first, so that one product serves them all.
    const auto add_linear = [&](std::vector<std::pair<std::string, std::int64_t>> maps, std::int64_t in, bool biased,
                                std::int64_t& weight, std::int64_t& bias) {
      weight = size_;
      for (const auto& [name, out] : maps) add(prefix + name + ".weight", {out, in});
      if (!biased) return;
      bias = size_;
      for (const auto& [name, out] : maps) add(prefix + name + ".bias", {out});
    };
    add_norm(prefix + "input_layernorm", at.norm1_weight, at.norm1_bias);
    add_linear({{"self_attn.q_proj", c.attention_width()},
                {"self_attn.k_proj", c.kv_width()},
                {"self_attn.v_proj", c.kv_width()}},
               d, c.qkv_bias, at.qkv_weight, at.qkv_bias);
    if (c.qk_norm) {
      at.q_norm = add(prefix + "self_attn.q_norm.weight", {c.head_dim});
      at.k_norm = add(prefix + "self_attn.k_norm.weight", {c.head_dim});
    }
    add_linear({{"self_attn.o_proj", d}}, c.attention_width(), c.o_bias, at.o_weight, at.o_bias);
    if (c.post_norms) add_norm(prefix + "post_attention_layernorm", at.post1_weight, at.post1_bias);
    add_norm(prefix + (c.post_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm"), at.norm2_weight,
             at.norm2_bias);
    if (is_gated(c.mlp)) {
      add_linear({{"mlp.gate_proj", c.d_ff}, {"mlp.up_proj", c.d_ff}}, d, c.mlp_bias, at.up_weight, at.up_bias);
    } else {
      add_linear({{"mlp.up_proj", c.d_ff}}, d, c.mlp_bias, at.up_weight, at.up_bias);
    }
    add_linear({{"mlp.down_proj", d}}, c.d_ff, c.mlp_bias, at.down_weight, at.down_bias);
    if (c.post_norms) add_norm(prefix + "post_feedforward_layernorm", at.post2_weight, at.post2_bias);
    if (layer > 0) continue;
    layer_size_ = size_ - layers_begin_;
    for (std::int64_t* offset :
         {&at.norm1_weight, &at.norm1_bias, &at.qkv_weight, &at.qkv_bias, &at.o_weight, &at.o_bias, &at.norm2_weight,
          &at.norm2_bias, &at.up_weight, &at.up_bias, &at.down_weight, &at.down_bias, &at.q_norm, &at.k_norm,
          &at.post1_weight, &at.post1_bias, &at.post2_weight, &at.post2_bias}) {
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
    if (spec.offset == layout.method) {
      config.encoding->initialise(method_model(config), generator,
                                  std::span(values).subspan(static_cast<std::size_t>(layout.method),
                                                            static_cast<std::size_t>(layout.method_size)));
    }
    if (spec.offset >= layout.method && spec.offset < layout.method + layout.method_size) continue;
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
