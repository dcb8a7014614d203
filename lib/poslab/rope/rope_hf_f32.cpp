#include "poslab/rope/rope_hf_f32.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace poslab {
namespace {

// theta^(2i / dim), i = 0 .. (dim + 1) / 2 - 1.
std::vector<float> powers(double rope_theta, std::int64_t dim) {
  std::vector<float> out(static_cast<std::size_t>((dim + 1) / 2));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    out[i] = std::pow(static_cast<float>(rope_theta), exponent);
  }
  return out;
}

std::vector<float> plain(double rope_theta, std::int64_t dim) {
  std::vector<float> out = powers(rope_theta, dim);
  for (float& w : out) w = 1.0f / w;
  return out;
}

std::vector<float> yarn(const RopeScaling& s) {
  const float factor = static_cast<float>(effective_factor(s));
  const YarnRange range = yarn_range(s);
  const float low = static_cast<float>(range.low), span = static_cast<float>(range.high - range.low);
  std::vector<float> out = powers(s.rope_theta, s.rotary_dim);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float extrapolated = 1.0f / out[i];
    const float interpolated = 1.0f / (factor * out[i]);
    const float ramp = std::clamp((static_cast<float>(i) - low) / span, 0.0f, 1.0f);
    const float keep = 1.0f - ramp;
    out[i] = interpolated * (1.0f - keep) + extrapolated * keep;
  }
  return out;
}

std::vector<float> llama3(const RopeScaling& s) {
  const double original = original_length(s);
  const float factor = static_cast<float>(*s.factor);
  const float low = static_cast<float>(s.low_freq_factor);
  const float span = static_cast<float>(s.high_freq_factor - s.low_freq_factor);
  const float long_wave = static_cast<float>(original / s.low_freq_factor);
  const float short_wave = static_cast<float>(original / s.high_freq_factor);
  std::vector<float> out = plain(s.rope_theta, s.rotary_dim);
  for (float& w : out) {
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / w;
    if (wavelength > long_wave) {
      w = w / factor;
    } else if (wavelength >= short_wave) {
      const float keep = (static_cast<float>(original) / wavelength - low) / span;
      w = (1.0f - keep) * w / factor + keep * w;
    }
  }
  return out;
}

std::vector<float> longrope(const RopeScaling& s, std::optional<std::int64_t> seq_len) {
  const bool is_long = seq_len && static_cast<double>(*seq_len) > original_length(s);
  const std::vector<double>& divisors = is_long ? s.long_factor : s.short_factor;
  std::vector<float> out = powers(s.rope_theta, s.rotary_dim);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = 1.0f / (static_cast<float>(divisors[i]) * out[i]);
  return out;
}

std::vector<float> proportional(const RopeScaling& s, const std::vector<double>& reference) {
  const float factor = static_cast<float>(s.factor.value_or(1));
  std::vector<float> out = plain(s.rope_theta, s.head_dim);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = reference[i] == 0 ? 0.0f : out[i] / factor;
  return out;
}

}  // namespace

std::vector<float> rope_inv_freq_hf_f32(const RopeScaling& s, std::optional<std::int64_t> seq_len) {
  // Computed first, so that what is refused there is refused here.
  const std::vector<double> reference = rope_frequencies(s, seq_len).inv_freq;
  switch (s.rope_type) {
    case RopeType::default_:
      return plain(s.rope_theta, s.rotary_dim);
    case RopeType::linear: {
      std::vector<float> out = plain(s.rope_theta, s.rotary_dim);
      for (float& w : out) w /= static_cast<float>(*s.factor);
      return out;
    }
    case RopeType::dynamic:
      return plain(dynamic_theta(s, seq_len), s.rotary_dim);
    case RopeType::yarn:
      if (s.yarn_ramp == YarnRamp::code) return yarn(s);
      break;
    case RopeType::longrope:
      return longrope(s, seq_len);
    case RopeType::llama3:
      return llama3(s);
    case RopeType::proportional:
      return proportional(s, reference);
    case RopeType::ntk:
    case RopeType::ntk_by_parts:
      break;
  }
  std::vector<float> out;
  for (double w : reference) out.push_back(static_cast<float>(w));
  return out;
}

}  // namespace poslab
