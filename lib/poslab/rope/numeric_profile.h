// How an implementation rounds on the way from a position to cos and sin, as a named pipeline of stages:
//
//   position -> rounded -+
//                        +-> product -> rounded -> angle -> cos, sin -> stored -> rotates queries and keys
//   inv_freq -> rounded -+
//
// A profile is a word, or words joined by '+': a pipeline first (hf_f32 when none is named), then casts, which change
// only their own stages. "f64+bf16_table" takes angles, cos and sin in f64 and stores the results in bf16.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/core/element_type.h"

namespace poslab {

enum class FrequencyMethod {
  f64,              // theta^(-2i/d) in double
  f32,              // 1 / powf(theta, 2i/d), as Hugging Face models do
  running_product,  // no inv_freq: angle_0 = position, angle_i = angle_(i-1) * powf(theta, -2/d) in f32, as ggml does
};

struct NumericProfile {
  FrequencyMethod frequency = FrequencyMethod::f32;
  DType position = DType::f32;
  DType inv_freq = DType::f32;
  DType product = DType::f32;   // of position and inv_freq
  DType angle = DType::f32;     // the product, rounded again
  DType trig = DType::f32;      // f64 or f32: cos and sin are taken in it
  DType table = DType::f32;     // cos and sin are stored in it
  DType rotation = DType::f32;  // each product and sum of the rotation is rounded to it
  DType vectors = DType::f32;   // queries and keys, before and after the rotation
};

struct ProfileWord {
  std::string word;
  std::string meaning;
};
// Every word, pipelines first.
std::vector<ProfileWord> profile_words();

// Throws std::invalid_argument "[numeric_profile] ..." for an unknown word, a pipeline that is not first, or a cast of
// inv_freq where the pipeline has none.
NumericProfile numeric_profile(std::string_view text);

// The meanings of a known profile's words, in their order.
std::string profile_meaning(std::string_view text);

struct CosSin {
  double cos = 1, sin = 0;
};

// RoPE's cos and sin under a profile. Every stage is monotone: a pair's angle never shrinks as the position grows.
class ProfiledRope {
 public:
  // Throws std::invalid_argument for an odd or non-positive rotary_dim or a theta not above 0.
  ProfiledRope(const NumericProfile& profile, std::int64_t rotary_dim, double rope_theta);
  // The frequencies of any scaling method (rad/token), rounded as the profile says. A running product has none: throws.
  ProfiledRope(const NumericProfile& profile, std::vector<double> inv_freq);

  const NumericProfile& profile() const { return profile_; }
  std::int64_t n_pairs() const { return n_pairs_; }
  double angle(double position, std::int64_t pair) const;  // radians; inf or NaN where f16 overflows
  CosSin turn(double angle) const;                         // as stored
  // Both spans [n_pairs].
  void cos_sin(double position, std::span<double> cos, std::span<double> sin) const;

 private:
  NumericProfile profile_;
  std::int64_t n_pairs_ = 0;
  std::vector<double> inv_freq_;  // [n_pairs], rounded; empty for a running product
  float theta_scale_ = 1;
};

// The truth that profiles are measured against, in long double: inv_freq by powl, one rounded product, and cosl and
// sinl with their full-range reduction. With x86's 64-bit significand an angle is off by at most 2^-62 of
// itself, 2.2e-12 rad at ten million; checked against golden/sin_table_exact.json.
class ExactRope {
 public:
  ExactRope(std::int64_t rotary_dim, double rope_theta);
  std::int64_t n_pairs() const { return static_cast<std::int64_t>(inv_freq_.size()); }
  long double angle(double position, std::int64_t pair) const;  // radians

 private:
  std::vector<long double> inv_freq_;
};

}  // namespace poslab
