#include "poslab/rope/ggml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "poslab/rope/rope.h"
#include "poslab/rope/scaling_formulas.h"

namespace poslab {

RopeFrequencies ggml_frequencies(const GgmlRope& rope) {
  RopeFrequencies out{rope_inv_freq(rope.n_dims, rope.freq_base), rope.attn_factor};
  if (!rope.freq_factors.empty() && rope.freq_factors.size() != out.inv_freq.size()) {
    throw std::invalid_argument(fmt::format("[ggml_frequencies] freq_factors must have {} values but has {}.",
                                            out.inv_freq.size(), rope.freq_factors.size()));
  }
  RopeScaling ramp;
  ramp.rope_theta = rope.freq_base;
  ramp.rotary_dim = rope.n_dims;
  ramp.original_max_position_embeddings = static_cast<double>(rope.n_ctx_orig);
  ramp.beta_fast = rope.beta_fast;
  ramp.beta_slow = rope.beta_slow;
  const YarnRange range = yarn_range(ramp);
  for (std::size_t i = 0; i < out.inv_freq.size(); ++i) {
    const double w = out.inv_freq[i] / (rope.freq_factors.empty() ? 1 : rope.freq_factors[i]);
    const double position = (static_cast<double>(i) - range.low) / std::max(0.001, range.high - range.low);
    const double mix = rope.ext_factor * (1 - std::clamp(position, 0.0, 1.0));
    out.inv_freq[i] = rope.freq_scale * w * (1 - mix) + w * mix;
  }
  if (rope.ext_factor != 0) out.attention_factor *= 1 + 0.1 * std::log(1 / rope.freq_scale);
  return out;
}

std::optional<GgmlRope> to_ggml(const RopeScaling& s, FollowedLength seq_len) {
  if (s.rotary_dim % 2 != 0 || !s.rope_type->to_ggml) return std::nullopt;
  GgmlRope rope;
  rope.n_dims = s.rotary_dim;
  rope.freq_base = s.rope_theta;
  rope.beta_fast = s.beta_fast;
  rope.beta_slow = s.beta_slow;
  if (s.original_max_position_embeddings || s.max_position_embeddings) {
    rope.n_ctx_orig = static_cast<std::int64_t>(original_length(s));
  }
  if (!s.rope_type->to_ggml(rope, s, seq_len)) return std::nullopt;
  return rope;
}

}  // namespace poslab
