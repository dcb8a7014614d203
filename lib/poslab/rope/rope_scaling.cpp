#include "poslab/rope/rope_scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "poslab/rope/rope.h"

namespace poslab {
namespace {

constexpr double two_pi = 2 * std::numbers::pi;

double required(const std::optional<double>& value, std::string_view name, RopeType type) {
  if (!value) throw std::invalid_argument(fmt::format("[rope_scaling] {} needs {}.", to_word(type), name));
  return *value;
}

// Every second frequency of twice the width: exponents -2i / rotary_dim for an odd rotary_dim too.
std::vector<double> unscaled(std::int64_t rotary_dim, double rope_theta) {
  if (rotary_dim % 2 == 0) return rope_inv_freq(rotary_dim, rope_theta);
  const std::vector<double> twice = rope_inv_freq(2 * rotary_dim, rope_theta);
  std::vector<double> inv_freq;
  for (std::size_t i = 0; i < twice.size(); i += 2) inv_freq.push_back(twice[i]);
  return inv_freq;
}

// w / k where weight is 1, w where it is 0.
double blend(double w, double k, double weight) { return w / k * weight + w * (1 - weight); }

// The exponent of both NTK formulas.
double ntk_exponent(std::int64_t rotary_dim) {
  if (rotary_dim == 2) {
    throw std::invalid_argument(
        "[rope_scaling] ntk and dynamic divide by rotary_dim - 2: rotary_dim 2 has a single pair, which neither can "
        "slow down.");
  }
  return static_cast<double>(rotary_dim) / static_cast<double>(rotary_dim - 2);
}

// The share of w / k in NTK-by-parts.
double paper_ramp(double w, double original, const RopeScaling& s) {
  const double turns = original * w / two_pi;
  return 1 - std::clamp((turns - s.beta_slow) / (s.beta_fast - s.beta_slow), 0.0, 1.0);
}

double code_ramp(double pair, const YarnRange& range) {
  return std::clamp((pair - range.low) / (range.high - range.low), 0.0, 1.0);
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

double effective_factor(const RopeScaling& s) {
  if (s.factor) return *s.factor;
  return required(s.max_position_embeddings, "factor, or max_position_embeddings to derive it from", s.rope_type) /
         original_length(s);
}

double ntk_theta(double rope_theta, double factor, std::int64_t rotary_dim) {
  return rope_theta * std::pow(factor, ntk_exponent(rotary_dim));
}

double dynamic_theta(const RopeScaling& s, std::optional<std::int64_t> seq_len) {
  const double k = required(s.factor, "factor", RopeType::dynamic);
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

RopeFrequencies default_frequencies(const RopeScaling& s) { return {unscaled(s.rotary_dim, s.rope_theta), 1}; }

RopeFrequencies linear_frequencies(const RopeScaling& s) {
  const double k = required(s.factor, "factor", RopeType::linear);
  std::vector<double> inv_freq = unscaled(s.rotary_dim, s.rope_theta);
  for (double& w : inv_freq) w /= k;
  return {std::move(inv_freq), 1};
}

RopeFrequencies ntk_frequencies(const RopeScaling& s) {
  const double theta = ntk_theta(s.rope_theta, required(s.factor, "factor", RopeType::ntk), s.rotary_dim);
  return {unscaled(s.rotary_dim, theta), 1};
}

RopeFrequencies ntk_by_parts_frequencies(const RopeScaling& s) {
  const double k = effective_factor(s);
  const double original = original_length(s);
  std::vector<double> inv_freq = unscaled(s.rotary_dim, s.rope_theta);
  for (double& w : inv_freq) w = blend(w, k, paper_ramp(w, original, s));
  return {std::move(inv_freq), 1};
}

RopeFrequencies dynamic_frequencies(const RopeScaling& s, std::optional<std::int64_t> seq_len) {
  return {unscaled(s.rotary_dim, dynamic_theta(s, seq_len)), 1};
}

RopeFrequencies yarn_frequencies(const RopeScaling& s) {
  const double k = effective_factor(s);
  const double original = original_length(s);
  const YarnRange range = yarn_range(s);
  std::vector<double> inv_freq = unscaled(s.rotary_dim, s.rope_theta);
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const double weight =
        s.yarn_ramp == YarnRamp::code ? code_ramp(static_cast<double>(i), range) : paper_ramp(inv_freq[i], original, s);
    inv_freq[i] = blend(inv_freq[i], k, weight);
  }
  return {std::move(inv_freq), yarn_attention_factor(s)};
}

RopeFrequencies longrope_frequencies(const RopeScaling& s, std::optional<std::int64_t> seq_len) {
  const double k = effective_factor(s);
  const double original = original_length(s);
  std::vector<double> inv_freq = unscaled(s.rotary_dim, s.rope_theta);
  for (const auto& [name, list] : {std::pair{"short_factor", &s.short_factor}, {"long_factor", &s.long_factor}}) {
    if (list->size() != inv_freq.size()) {
      throw std::invalid_argument(
          fmt::format("[rope_scaling] longrope needs {} with one value per pair, {}, but it has "
                      "{}.",
                      name, inv_freq.size(), list->size()));
    }
  }
  const bool is_long = seq_len && static_cast<double>(*seq_len) > original;
  const std::vector<double>& divisors = is_long ? s.long_factor : s.short_factor;
  for (std::size_t i = 0; i < inv_freq.size(); ++i) inv_freq[i] /= divisors[i];
  const double computed = k <= 1 ? 1 : std::sqrt(1 + std::log(k) / std::log(original));
  return {std::move(inv_freq), s.attention_factor.value_or(computed)};
}

RopeFrequencies llama3_frequencies(const RopeScaling& s) {
  const double k = required(s.factor, "factor", RopeType::llama3);
  const double original = original_length(s);
  std::vector<double> inv_freq = unscaled(s.rotary_dim, s.rope_theta);
  for (double& w : inv_freq) {
    const double wavelength = two_pi / w;
    if (wavelength > original / s.low_freq_factor) {
      w /= k;
    } else if (wavelength >= original / s.high_freq_factor) {
      const double turns = original / wavelength;
      w = blend(w, k, 1 - (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor));
    }
  }
  return {std::move(inv_freq), 1};
}

RopeFrequencies proportional_frequencies(const RopeScaling& s) {
  const double k = s.factor.value_or(1);
  std::vector<double> inv_freq = unscaled(s.head_dim, s.rope_theta);
  const double moving = std::floor(s.partial_rotary_factor * static_cast<double>(s.head_dim) / 2);
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    inv_freq[i] = static_cast<double>(i) < moving ? inv_freq[i] / k : 0;
  }
  return {std::move(inv_freq), 1};
}

RopeFrequencies rope_frequencies(const RopeScaling& s, std::optional<std::int64_t> seq_len) {
  switch (s.rope_type) {
    case RopeType::default_:
      return default_frequencies(s);
    case RopeType::linear:
      return linear_frequencies(s);
    case RopeType::ntk:
      return ntk_frequencies(s);
    case RopeType::ntk_by_parts:
      return ntk_by_parts_frequencies(s);
    case RopeType::dynamic:
      return dynamic_frequencies(s, seq_len);
    case RopeType::yarn:
      return yarn_frequencies(s);
    case RopeType::longrope:
      return longrope_frequencies(s, seq_len);
    case RopeType::llama3:
      return llama3_frequencies(s);
    case RopeType::proportional:
      return proportional_frequencies(s);
  }
  throw std::logic_error("[rope_frequencies] unknown rope_type");
}

}  // namespace poslab
