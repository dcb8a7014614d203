#include "poslab/rope/scaling_formulas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "poslab/rope/ggml.h"
#include "poslab/rope/rope.h"

namespace poslab {
namespace {

double required(const std::optional<double>& value, std::string_view name, RopeType type) {
  if (!value) throw std::invalid_argument(fmt::format("[rope_scaling] {} needs {}.", type.word(), name));
  return *value;
}

// The exponent of both NTK formulas.
double ntk_exponent(std::int64_t rotary_dim) {
  if (rotary_dim == 2) {
    throw std::invalid_argument(
        "[rope_scaling] ntk and dynamic divide by rotary_dim - 2: rotary_dim 2 has a single pair, which neither can "
        "slow down.");
  }
  return static_cast<double>(rotary_dim) / static_cast<double>(rotary_dim - 2);
}

}  // namespace

double original_length(const RopeScaling& s) {
  const auto& length = s.original_max_position_embeddings ? s.original_max_position_embeddings  //
                                                          : s.max_position_embeddings;
  const double original =
      required(length, "original_max_position_embeddings, or max_position_embeddings in its place", s.rope_type);
  if (!(original > 0)) {
    throw std::invalid_argument(
        fmt::format("[rope_scaling] original_max_position_embeddings must be above 0 but is {}.", original));
  }
  return original;
}

double required_factor(const RopeScaling& s) { return required(s.factor, "factor", s.rope_type); }

double effective_factor(const RopeScaling& s) {
  if (s.factor) return *s.factor;
  return required(s.max_position_embeddings, "factor, or max_position_embeddings to derive it from", s.rope_type) /
         original_length(s);
}

std::vector<double> plain_inv_freq(std::int64_t dim, double rope_theta) {
  if (dim % 2 == 0) return rope_inv_freq(dim, rope_theta);
  // Every second frequency of twice the width.
  const std::vector<double> twice = rope_inv_freq(2 * dim, rope_theta);
  std::vector<double> inv_freq;
  for (std::size_t i = 0; i < twice.size(); i += 2) inv_freq.push_back(twice[i]);
  return inv_freq;
}

std::vector<float> powers_f32(double rope_theta, std::int64_t dim) {
  std::vector<float> out(static_cast<std::size_t>((dim + 1) / 2));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    out[i] = std::pow(static_cast<float>(rope_theta), exponent);
  }
  return out;
}

std::vector<float> plain_inv_freq_f32(double rope_theta, std::int64_t dim) {
  std::vector<float> out = powers_f32(rope_theta, dim);
  for (float& w : out) w = 1.0f / w;
  return out;
}

double paper_ramp(double w, double original, const RopeScaling& s) {
  const double rotations = original * w / two_pi;
  return 1 - std::clamp((rotations - s.beta_slow) / (s.beta_fast - s.beta_slow), 0.0, 1.0);
}

double ntk_theta(double rope_theta, double factor, std::int64_t rotary_dim) {
  return rope_theta * std::pow(factor, ntk_exponent(rotary_dim));
}

double dynamic_theta(const RopeScaling& s, FollowedLength seq_len) {
  const double k = required_factor(s);
  const double trained = s.max_position_embeddings ? *s.max_position_embeddings : original_length(s);
  const double length = std::max(seq_len ? static_cast<double>(*seq_len) : trained, trained);
  return s.rope_theta * std::pow(k * length / trained - (k - 1), ntk_exponent(s.rotary_dim));
}

double critical_theta(double rope_theta, double trained_length, double target_length) {
  if (!(trained_length > two_pi) || !(target_length > two_pi)) {
    throw std::invalid_argument(fmt::format(
        "[critical_theta] both lengths must be above 2 pi tokens but are {} and {}.", trained_length, target_length));
  }
  return std::pow(rope_theta, std::log(target_length / two_pi) / std::log(trained_length / two_pi));
}

double critical_pair(double rope_theta, double length, std::int64_t rotary_dim) {
  if (rope_theta == 1) {
    throw std::invalid_argument(
        "[critical_pair] with rope_theta 1 every pair turns alike: no pair is the critical one.");
  }
  return static_cast<double>(rotary_dim) * std::log(length / two_pi) / (2 * std::log(rope_theta));
}

double yarn_mscale(double scale, double mscale) { return scale <= 1 ? 1 : 0.1 * mscale * std::log(scale) + 1; }

double yarn_attention_factor(const RopeScaling& s) {
  if (s.attention_factor) return *s.attention_factor;
  const double k = effective_factor(s);
  if (s.mscale.value_or(0) != 0 && s.mscale_all_dim.value_or(0) != 0) {
    return yarn_mscale(k, *s.mscale) / yarn_mscale(k, *s.mscale_all_dim);
  }
  return yarn_mscale(k);
}

double mla_softmax_multiplier(const RopeScaling& s) {
  if (s.mscale_all_dim.value_or(0) == 0) return 1;
  const double m = yarn_mscale(effective_factor(s), *s.mscale_all_dim);
  return m * m;
}

YarnRange yarn_range(const RopeScaling& s) {
  const double original = original_length(s);
  YarnRange range{critical_pair(s.rope_theta, original / s.beta_fast, s.rotary_dim),
                  critical_pair(s.rope_theta, original / s.beta_slow, s.rotary_dim)};
  if (s.truncate) range = {std::floor(range.low), std::ceil(range.high)};
  range.low = std::max(range.low, 0.0);
  range.high = std::min(range.high, static_cast<double>(s.rotary_dim - 1));
  if (range.low == range.high) range.high += 0.001;
  return range;
}

std::string lacks_a_second_pair(const RopeScaling& s) {
  if (s.rotary_dim != 2) return "";
  return fmt::format("{} divides by rotary_dim - 2 and cannot stretch a single pair.", s.rope_type.word());
}

bool ggml_by_factors(GgmlRope& rope, const RopeScaling& s, FollowedLength seq_len) {
  const RopeFrequencies scaled = rope_frequencies(s, seq_len);
  const std::vector<double> plain = rope_inv_freq(s.rotary_dim, s.rope_theta);
  for (std::size_t i = 0; i < plain.size(); ++i) rope.freq_factors.push_back(plain[i] / scaled.inv_freq[i]);
  rope.attn_factor = scaled.attention_factor;
  return true;
}

std::string llama_cpp_base_flags(const GgmlRope& rope) {
  return fmt::format("--rope-scaling none --rope-freq-base {} ", rope.freq_base);
}

}  // namespace poslab
