// What a decoder-only transformer is made of; names as in Hugging Face configs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "poslab/core/fields.h"
#include "poslab/methods/list.h"
#include "poslab/rope/rope.h"
#include "poslab/rope/scaling.h"

namespace poslab {

// LayerNorm has a gain and a bias, RMSNorm a gain alone.
enum class NormKind { layer_norm, rms_norm };
constexpr auto words(NormKind) {
  return word_table<NormKind>({{NormKind::layer_norm, "layer_norm"}, {NormKind::rms_norm, "rms_norm"}});
}

// gelu: down(gelu(up(x))), gelu(u) = u Phi(u), exact; swiglu: down(silu(gate(x)) * up(x)) (Shazeer 2020,
// arXiv:2002.05202). gelu_tanh, geglu_tanh: gelu(u) = u (1 + tanh(sqrt(2 / pi) (u + 0.044715 u^3))) / 2, plain and in
// silu's place (Hendrycks and Gimpel 2016, arXiv:1606.08415).
enum class MlpKind { gelu, swiglu, gelu_tanh, geglu_tanh };
constexpr auto words(MlpKind) {
  return word_table<MlpKind>({{MlpKind::gelu, "gelu"},
                              {MlpKind::swiglu, "swiglu"},
                              {MlpKind::gelu_tanh, "gelu_tanh"},
                              {MlpKind::geglu_tanh, "geglu_tanh"}});
}
constexpr bool is_gated(MlpKind mlp) { return mlp == MlpKind::swiglu || mlp == MlpKind::geglu_tanh; }

// The unscaled set of a head that turns in all its channels.
inline RopeScaling plain_rope(std::int64_t head_dim, double rope_theta = 10000) {
  RopeScaling rope;
  rope.rope_theta = rope_theta;
  rope.head_dim = rope.rotary_dim = head_dim;
  return rope;
}

// x += attention(norm(x)); x += mlp(norm(x)), n_layers times, then a norm and the head.
struct TransformerConfig {
  std::int64_t vocab_size = 96;
  std::int64_t d_model = 128;
  std::int64_t n_layers = 4;
  std::int64_t n_heads = 4;
  std::int64_t n_kv_heads = 4;  // query head h reads key-value head h / (n_heads / n_kv_heads)
  std::int64_t head_dim = 32;
  std::int64_t d_ff = 512;
  NormKind norm = NormKind::layer_norm;
  double norm_eps = 1e-5;
  MlpKind mlp = MlpKind::gelu;
  bool qkv_bias = true, o_bias = true, mlp_bias = true;  // of the linear maps; the head has none
  bool tied_head = true;                                 // the head is the table of token vectors

  PositionEncoding encoding;                   // of methods/list.h; RoPE unless said otherwise
  std::int64_t max_position_embeddings = 256;  // tokens; the rows of a learned table, else the trained length
  RopeScaling rope = plain_rope(32);
  RopeLayout layout = RopeLayout::half;
  MethodParams method;                // of the encoding
  std::int64_t attention_window = 0;  // each token sees the last so many, itself included; 0: all

  // What pretrained models have beside that; a model with any of it runs but is not trained here.
  bool qk_norm = false;               // each head of q and k passes an RMSNorm before it turns
  bool post_norms = false;            // what attention and the MLP say passes a norm before it is added
  bool parallel_residual = false;     // x += attention(norm1(x)) + mlp(norm2(x))
  bool embedding_norm = false;        // token vectors pass a norm
  double embedding_scale = 1;         // multiplies token vectors
  std::optional<double> query_scale;  // multiplies q . k; absent: 1 / sqrt(head_dim)
  std::optional<double> qkv_clip;     // q, k and v are cut to -clip .. clip; absent: not
  // Layers that see less than the others and may turn at frequencies of their own (Gemma 3's sliding layers).
  std::vector<bool> local_layers;  // [n_layers]; empty: none
  std::int64_t local_window = 0;   // tokens, itself included
  RopeScaling local_rope;          // never scaled for an evaluation

  std::int64_t attention_width() const { return n_heads * head_dim; }
  std::int64_t kv_width() const { return n_kv_heads * head_dim; }
  std::int64_t qkv_width() const { return attention_width() + 2 * kv_width(); }
  std::int64_t up_width() const { return is_gated(mlp) ? 2 * d_ff : d_ff; }  // the gate first
  bool is_local(std::int64_t layer) const {
    return !local_layers.empty() && local_layers[static_cast<std::size_t>(layer)];
  }
  void set_biases(bool all) { qkv_bias = o_bias = mlp_bias = all; }
};

// What its encoding may know of the model.
inline MethodModel method_model(const TransformerConfig& c) {
  return {c.method, c.d_model, c.n_heads, c.head_dim, c.max_position_embeddings, true};
}

// Throws std::invalid_argument "[transformer] ..." for sizes that are not positive or do not divide, an eps not above
// 0, and pairs that do not fit in a head.
void check_config(const TransformerConfig& config);

// What of the config has no gradient here, or an empty text.
std::string untrainable(const TransformerConfig& config);

}  // namespace poslab
