#include "poslab/probe/prediction.h"

#include <algorithm>
#include <cmath>

#include "poslab/rope/scaling_formulas.h"

namespace poslab {
namespace {

constexpr double unit = 0x1p-24;

// Blending kept and stretched frequencies in f32 magnifies the rounding of the weight between them.
std::vector<double> blend_units(const RopeHypothesis& h) {
  const std::size_t n = h.frequencies.inv_freq.size();
  std::vector<double> units(n, 0.0);
  RopeScaling plain = h.scaling;
  plain.rotary_dim = h.rotary_dim();
  const std::vector<double> w = plain_inv_freq(plain.rotary_dim, plain.rope_theta);
  double least = 1;
  std::vector<double> kept(n, 1.0);
  for (std::size_t i = 0; i < n; ++i) {
    kept[i] = h.frequencies.inv_freq[i] / w[i];
    if (kept[i] > 0) least = std::min(least, kept[i]);
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (kept[i] > least * (1 + 1e-9) && kept[i] < 1 - 1e-9) units[i] = 6 * (1 - least) / kept[i];
  }
  return units;
}

bool is_coarse(DType type) { return type == DType::bf16 || type == DType::f16; }

bool is_double(const NumericProfile& p) { return p.angle == DType::f64 && p.frequency == FrequencyMethod::f64; }

RopeHypothesis nudged(const RopeHypothesis& h, const std::vector<double>& units, double sign) {
  RopeHypothesis out = h;
  for (std::size_t i = 0; i < units.size(); ++i) out.frequencies.inv_freq[i] *= 1 + sign * units[i] * unit;
  out.bent = true;
  return out;
}

RopeHypothesis in_double(RopeHypothesis h) {
  h.profile = "f64";
  return h;
}

// How far rounding to `type` can move a value that is known to within `error`.
double rounding_step(DType type, double value, double error) {
  if (type == DType::f64) return error;
  const double here = round_to(type, value);
  return std::max(std::abs(round_to(type, value + error) - here), std::abs(round_to(type, value - error) - here));
}

}  // namespace

Prediction::Prediction(const EngineModel& model, Tolerance tolerance, DType stored_as)
    : model_(model),
      tolerance_(tolerance),
      turns_(tolerance == Tolerance::profile ? model.rope : in_double(model.rope)),
      table_(DType::f64),
      rotation_(DType::f32) {
  const std::size_t n = model.rope.frequencies.inv_freq.size();
  const auto pairs = static_cast<double>(n);
  if (tolerance != Tolerance::profile) {
    units_ = blend_units(model.rope);
    for (std::size_t i = 0; i < n; ++i) {
      const double pair = static_cast<double>(i);
      units_[i] +=
          6 + (tolerance == Tolerance::ggml ? 2 * pair : std::log(model.rope.scaling.rope_theta) * pair / pairs);
    }
    return;
  }
  const NumericProfile profile = numeric_profile(model.rope.profile);
  if (is_coarse(profile.table)) table_ = profile.table;
  // Values rotated in a coarse type would have been stored as such.
  if (is_coarse(profile.rotation) && is_coarse(stored_as)) rotation_ = stored_as;
  units_.assign(n, is_double(profile)                          ? 1e-7
                   : profile.frequency == FrequencyMethod::f32 ? 5
                   : profile.product == DType::f32             ? 2
                                                               : 1);
  if (profile.frequency == FrequencyMethod::running_product) {
    for (std::size_t i = 0; i < n; ++i) units_[i] = 4 + 2 * static_cast<double>(i);
  }
  // A coarse stage turns a last digit into a whole step, up or down.
  if (is_coarse(profile.angle) || is_coarse(profile.inv_freq)) {
    apart_.emplace_back(nudged(model.rope, units_, -1));
    apart_.emplace_back(nudged(model.rope, units_, 1));
  }
}

Prediction::Turned Prediction::turned(double position, std::size_t pair) const {
  const auto i = static_cast<std::int64_t>(pair);
  const double angle = turns_.angle(position, i);
  if (!std::isfinite(angle)) return {{1e30, 1e30}, 0};  // beyond the profile's type: nothing agrees with it
  double slack = std::abs(angle) * units_[pair] * unit;
  if (!model_.frequency_error.empty()) slack += std::abs(position) * model_.frequency_error[pair];
  for (const RopeTurns& other : apart_) slack = std::max(slack, std::abs(other.angle(position, i) - angle));
  // cos, sin, the table and the gain, each rounded to f32.
  const double error = slack + 6 * unit + model_.gain_error;
  double c = model_.cos_gain * std::cos(angle), s = model_.sin_gain * std::sin(angle);
  const double gain = std::max(std::abs(model_.cos_gain), std::abs(model_.sin_gain));
  double off = gain * error;
  if (table_ != DType::f64) {
    off = std::max(rounding_step(table_, c, off), rounding_step(table_, s, off));
    c = round_to(table_, c);
    s = round_to(table_, s);
  }
  // The rotation's two products and their sum.
  off += gain * (rotation_ == DType::bf16 ? 0x1p-8 : rotation_ == DType::f16 ? 0x1p-11 : 2 * unit);
  return {{c, s}, off};
}

void Prediction::at(double position, std::vector<PairMap>& maps, std::vector<double>& slack) const {
  const Pairing& p = model_.pairing;
  const bool overwritten = p.form == PairForm::first_overwritten || p.form == PairForm::second_overwritten;
  const std::size_t n = maps.size();
  for (std::size_t i = 0; i < n; ++i) {
    if (i < model_.copied.size() && model_.copied[i]) {
      maps[i] = {};
      slack[i] = 0;
      continue;
    }
    const auto [a, b] = p.columns(static_cast<std::int64_t>(i));
    const Turned first = turned(position, static_cast<std::size_t>(a));
    const Turned second = a == b ? first : turned(position, static_cast<std::size_t>(b));
    maps[i] = pair_map(p.form, first.value, second.value);
    // An overwritten member takes products of cos and sin.
    slack[i] = std::max(first.slack, second.slack) * (overwritten ? 3 : 1);
  }
}

}  // namespace poslab
