// ggml's rotary operation and its parameters, which llama.cpp's flags set: the same stretching under other names and
// with other conventions than Hugging Face's. Facts: ggml_rope_ext and rope_yarn in ggml (ops.cpp), run at llama.cpp
// 34af94cd (tests/golden/ggml_rope.json).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "poslab/rope/scaling.h"

namespace poslab {

struct GgmlRope {
  std::int64_t n_dims = 128;       // rotary_dim
  std::int64_t n_ctx_orig = 4096;  // original_max_position_embeddings
  double freq_base = 10000;        // rope_theta
  double freq_scale = 1;           // 1 / factor
  double ext_factor = 0;           // weight of the ramp: 0 interpolates every pair, 1 keeps the fast ones
  double attn_factor = 1;          // multiplies the factor that ggml computes itself
  double beta_fast = 32, beta_slow = 1;
  std::vector<double> freq_factors;  // [n_dims / 2], divides each frequency; empty: all 1
};

// w = freq_base^(-2i / n_dims) / freq_factors_i rotates at freq_scale w (1 - m) + w m with m = ext_factor times the
// ramp (yarn_range), ends rounded, 1 on fast pairs; cos and sin are multiplied by attn_factor (1 + 0.1 ln(1 /
// freq_scale)), or by attn_factor alone where ext_factor is 0. Throws std::invalid_argument "[ggml_frequencies] ..."
// for shapes that differ.
RopeFrequencies ggml_frequencies(const GgmlRope& rope);

// The parameters under which ggml rotates as rope_frequencies(scaling, seq_len) does, attention factor included; absent
// where ggml has none (an odd rotary_dim, and what the scaling's to_ggml says). Frequencies that no flag can reach
// stand in freq_factors, which llama.cpp reads from the GGUF file.
std::optional<GgmlRope> to_ggml(const RopeScaling& scaling, FollowedLength seq_len = std::nullopt);

}  // namespace poslab
