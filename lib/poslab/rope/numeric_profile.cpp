#include "poslab/rope/numeric_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cfloat>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "poslab/rope/rope.h"

namespace poslab {
namespace {

static_assert(LDBL_MANT_DIG >= 64, "exact angles need a long double longer than double");

struct Pipeline {
  std::string_view word;
  std::string_view meaning;
  NumericProfile profile;
};

constexpr NumericProfile all_f64 = {FrequencyMethod::f64, DType::f64, DType::f64, DType::f64, DType::f64,
                                    DType::f64,           DType::f64, DType::f64, DType::f64};
constexpr DType f32 = DType::f32, f64 = DType::f64;
constexpr Pipeline pipelines[] = {
    {"f64", "every stage in f64", all_f64},
    {"f32_table",
     "angles, cos and sin in f64, stored in f32",
     {FrequencyMethod::f64, f64, f64, f64, f64, f64, f32, f32, f32}},
    {"f32_angle",
     "the f64 angle rounded to f32, then f32 cos and sin",
     {FrequencyMethod::f64, f64, f64, f64, f32, f32, f32, f32, f32}},
    {"f32_inv_freq",
     "inv_freq taken in f64 and rounded to f32, the rest in f32",
     {FrequencyMethod::f64, f32, f32, f32, f32, f32, f32, f32, f32}},
    {"hf_f32", "every stage in f32, inv_freq included, as Hugging Face models do", {}},
    {"ggml_f32", "f32 angles by ggml's running product theta *= theta_scale", {FrequencyMethod::running_product}},
};

struct Cast {
  std::string_view suffix;
  std::string_view meaning;  // {} is the type
  void (*apply)(NumericProfile& profile, DType type);
};

void store(NumericProfile& p, DType type) { p.table = p.rotation = p.vectors = type; }

constexpr Cast casts[] = {
    {"_table", "cos and sin stored in {0}, queries and keys rotated in it", store},
    {"_angle", "the angle rounded to {0}, then as {0}_table",
     [](NumericProfile& p, DType type) { store(p, type), p.angle = type; }},
    {"_inv_freq", "inv_freq rounded to {0}, then as {0}_table",
     [](NumericProfile& p, DType type) { store(p, type), p.inv_freq = type; }},
    {"_position", "the position rounded to {0}, then as {0}_table",
     [](NumericProfile& p, DType type) { store(p, type), p.position = type; }},
    {"_all", "position, inv_freq, angle, cos and sin each rounded to {0}",
     [](NumericProfile& p, DType type) { store(p, type), p.position = p.inv_freq = p.angle = type; }},
    {"_position_only", "the position alone rounded to {0}", [](NumericProfile& p, DType type) { p.position = type; }},
    {"_inv_freq_only", "inv_freq alone rounded to {0}", [](NumericProfile& p, DType type) { p.inv_freq = type; }},
    {"_angle_only", "the angle alone rounded to {0}", [](NumericProfile& p, DType type) { p.angle = type; }},
    {"_vectors", "queries and keys alone in {0}, rounded before and after a finer rotation",
     [](NumericProfile& p, DType type) { p.vectors = type; }},
};
constexpr DType cast_types[] = {DType::bf16, DType::f16};

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t plus = text.find('+');
    words.push_back(text.substr(0, plus));
    if (plus == std::string_view::npos) return words;
    text.remove_prefix(plus + 1);
  }
}

// Applies one word; false when there is none of that name.
bool apply_word(std::string_view word, bool first, NumericProfile& profile) {
  for (const Pipeline& pipeline : pipelines) {
    if (word != pipeline.word) continue;
    if (!first) {
      throw std::invalid_argument(
          fmt::format("[numeric_profile] '{}' sets every stage, so it must come before the casts.", word));
    }
    profile = pipeline.profile;
    return true;
  }
  for (DType type : cast_types) {
    const std::string_view name = to_word(type);
    if (!word.starts_with(name)) continue;
    for (const Cast& cast : casts) {
      if (word.substr(name.size()) != cast.suffix) continue;
      const DType before = profile.inv_freq;
      cast.apply(profile, type);
      if (profile.frequency == FrequencyMethod::running_product && profile.inv_freq != before) {
        throw std::invalid_argument(
            fmt::format("[numeric_profile] '{}' rounds inv_freq, but ggml_f32's running product has none.", word));
      }
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<ProfileWord> profile_words() {
  std::vector<ProfileWord> words;
  for (const Pipeline& p : pipelines) words.push_back({std::string(p.word), std::string(p.meaning)});
  for (DType type : cast_types) {
    for (const Cast& cast : casts) {
      const std::string_view name = to_word(type);
      words.push_back({fmt::format("{}{}", name, cast.suffix), fmt::format(fmt::runtime(cast.meaning), name)});
    }
  }
  return words;
}

NumericProfile numeric_profile(std::string_view text) {
  NumericProfile profile;
  bool first = true;
  for (std::string_view word : split(text)) {
    if (!apply_word(word, first, profile)) {
      std::vector<std::string> known;
      for (ProfileWord& entry : profile_words()) known.push_back(std::move(entry.word));
      throw std::invalid_argument(fmt::format("[numeric_profile] unknown profile '{}'; known are {}, joined by '+'.",
                                              text, fmt::join(known, ", ")));
    }
    first = false;
  }
  return profile;
}

std::string profile_meaning(std::string_view text) {
  const std::vector<ProfileWord> known = profile_words();
  std::vector<std::string> meanings;
  for (std::string_view word : split(text)) {
    for (const ProfileWord& entry : known) {
      if (entry.word == word) meanings.push_back(entry.meaning);
    }
  }
  return fmt::format("{}", fmt::join(meanings, "; "));
}

ProfiledRope::ProfiledRope(const NumericProfile& profile, std::int64_t rotary_dim, double rope_theta)
    : profile_(profile), n_pairs_(rotary_dim / 2), inv_freq_(rope_inv_freq(rotary_dim, rope_theta)) {
  const auto theta = static_cast<float>(rope_theta);
  if (profile_.frequency == FrequencyMethod::running_product) {
    inv_freq_.clear();
    theta_scale_ = std::pow(theta, -2.0F / static_cast<float>(rotary_dim));
    return;
  }
  for (std::int64_t i = 0; i < n_pairs_; ++i) {
    double& w = inv_freq_[static_cast<std::size_t>(i)];
    if (profile_.frequency == FrequencyMethod::f32) {
      w = 1.0F / std::pow(theta, static_cast<float>(2 * i) / static_cast<float>(rotary_dim));
    }
    w = round_to(profile_.inv_freq, w);
  }
}

ProfiledRope::ProfiledRope(const NumericProfile& profile, std::vector<double> inv_freq)
    : profile_(profile), n_pairs_(static_cast<std::int64_t>(inv_freq.size())), inv_freq_(std::move(inv_freq)) {
  if (profile_.frequency == FrequencyMethod::running_product) {
    throw std::invalid_argument("[ProfiledRope] a running product takes a base, not a list of frequencies.");
  }
  for (double& w : inv_freq_) {
    if (profile_.frequency == FrequencyMethod::f32) w = static_cast<float>(w);
    w = round_to(profile_.inv_freq, w);
  }
}

double ProfiledRope::angle(double position, std::int64_t pair) const {
  const double p = round_to(profile_.position, position);
  if (profile_.frequency == FrequencyMethod::running_product) {
    auto theta = static_cast<float>(p);
    for (std::int64_t i = 0; i < pair; ++i) theta *= theta_scale_;
    return round_to(profile_.angle, theta);
  }
  return round_to(profile_.angle, round_to(profile_.product, p * inv_freq_[static_cast<std::size_t>(pair)]));
}

CosSin ProfiledRope::turn(double angle) const {
  if (profile_.trig == DType::f64) {
    return {round_to(profile_.table, std::cos(angle)), round_to(profile_.table, std::sin(angle))};
  }
  const auto narrow = static_cast<float>(angle);
  return {round_to(profile_.table, std::cos(narrow)), round_to(profile_.table, std::sin(narrow))};
}

void ProfiledRope::cos_sin(double position, std::span<double> cos, std::span<double> sin) const {
  for (std::size_t i = 0; i < cos.size(); ++i) {
    const CosSin turned = turn(angle(position, static_cast<std::int64_t>(i)));
    cos[i] = turned.cos;
    sin[i] = turned.sin;
  }
}

ExactRope::ExactRope(std::int64_t rotary_dim, double rope_theta) {
  rope_inv_freq(rotary_dim, rope_theta);  // for its checks
  const auto dim = static_cast<long double>(rotary_dim);
  for (std::int64_t i = 0; i < rotary_dim / 2; ++i) {
    inv_freq_.push_back(std::pow(static_cast<long double>(rope_theta), -static_cast<long double>(2 * i) / dim));
  }
}

long double ExactRope::angle(double position, std::int64_t pair) const {
  return static_cast<long double>(position) * inv_freq_[static_cast<std::size_t>(pair)];
}

}  // namespace poslab
