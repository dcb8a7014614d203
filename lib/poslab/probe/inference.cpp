#include "poslab/probe/inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <map>
#include <numbers>
#include <optional>
#include <stdexcept>
#include <utility>

#include "poslab/rope/ggml.h"
#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

using Complex = std::complex<double>;

constexpr double known_bases[] = {10000,  20000,  26000,  40000,  50000,  80000,  100000, 130000, 150000,
                                  160000, 200000, 250000, 300000, 500000, 600000, 640000, 1e6,    2e6,
                                  4e6,    5e6,    8e6,    1e7,    2e7,    5e7,    1e8,    1e9,    1e11};
constexpr double known_factors[] = {1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 128};
constexpr double known_lengths[] = {512,   1024,   2048,   4096,   8192,    16384,  32768,
                                    65536, 131072, 262144, 524288, 1048576, 2097152};

// Explanations of one pairing's turns that are worth comparing further.
constexpr std::size_t most_found = 6;

// Relative error that an f32 computation of a frequency may have, powf included, and how far a product that runs over
// the pairs may drift with each.
constexpr double frequency_rounding = 2.4e-7;
constexpr double drift_per_pair = 1.2e-7;

// The number with the fewest digits within `relative_error` of x.
double round_number(double x, double relative_error) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double magnitude = std::floor(std::log10(std::abs(x)));
  for (int digits = 1; digits <= 12; ++digits) {
    const double exponent = magnitude - digits + 1;
    // Dividing by a whole power of ten keeps 0.1 and 12.5 exact.
    const double power = std::pow(10.0, std::abs(exponent));
    const double rounded = exponent >= 0 ? std::round(x / power) * power : std::round(x * power) / power;
    if (std::abs(rounded / x - 1) <= relative_error) return rounded;
  }
  return x;
}

// A straight line through ln |frequency| over the pair's index.
struct PowerLaw {
  double log_scale = 0, log_scale_error = 0;                // at pair 0
  double slope = 0, slope_error = 0;                        // per pair
  double misfit = std::numeric_limits<double>::infinity();  // chi^2 per degree of freedom

  bool fits() const { return misfit <= 4; }
  double at(std::size_t pair) const { return std::exp(log_scale + slope * static_cast<double>(pair)); }
};

struct Point {
  std::size_t pair;
  double log_value, error;  // relative
};

PowerLaw fit_power_law(const std::vector<Point>& points, bool free_scale) {
  double w = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const Point& p : points) {
    const double weight = 1 / (p.error * p.error), i = static_cast<double>(p.pair);
    w += weight;
    x += weight * i;
    y += weight * p.log_value;
    xx += weight * i * i;
    xy += weight * i * p.log_value;
  }
  PowerLaw law;
  const double determinant = w * xx - x * x;
  if (xx == 0 || (free_scale && determinant <= 1e-12 * w * xx)) return law;
  if (free_scale) {
    law.slope = (w * xy - x * y) / determinant;
    law.log_scale = (xx * y - x * xy) / determinant;
    law.slope_error = std::sqrt(w / determinant);
    law.log_scale_error = std::sqrt(xx / determinant);
  } else {
    law.slope = xy / xx;
    law.slope_error = std::sqrt(1 / xx);
  }
  double chi = 0;
  for (const Point& p : points) {
    const double off = (p.log_value - law.log_scale - law.slope * static_cast<double>(p.pair)) / p.error;
    chi += off * off;
  }
  const double dof = static_cast<double>(points.size()) - (free_scale ? 2 : 1);
  law.misfit = dof > 0 ? chi / dof : chi;
  return law;
}

// One explanation of frequencies in the making.
class Explainer {
 public:
  Explainer(const MeasuredFrequencies& measured, double attention_factor, double attention_factor_error)
      : measured_(measured),
        attention_factor_(attention_factor),
        attention_factor_error_(attention_factor_error),
        rotary_dim_(2 * static_cast<std::int64_t>(measured.value.size())) {
    double strongest = 0;
    for (std::size_t i = 0; i < measured.value.size(); ++i) {
      const double relative = std::abs(measured.value[i]) / measured.error[i];
      if (relative > strongest) {
        strongest = relative;
        sign_ = measured.value[i] < 0 ? -1 : 1;
      }
      if (measured.value[i] != 0 && relative > 8) {
        points_.push_back({i, std::log(std::abs(measured.value[i])), 1 / relative + frequency_rounding});
      }
    }
  }

  std::vector<RopeHypothesis> explain() {
    if (points_.empty()) return {};
    if (rotary_dim_ == 2) {
      power_law({.log_scale = points_[0].log_value, .log_scale_error = points_[0].error, .misfit = 0}, 10000);
      return std::move(found_);
    }
    const PowerLaw plain = fit_power_law(points_, false);
    if (plain.fits()) power_law(plain);
    if (found_.empty()) {
      const PowerLaw scaled = fit_power_law(points_, true);
      if (scaled.fits()) power_law(scaled);
    }
    if (found_.empty()) proportional();
    if (found_.empty()) by_parts();
    if (found_.size() > most_found) found_.resize(most_found);
    return std::move(found_);
  }

 private:
  RopeScaling base(double theta) const {
    RopeScaling s;
    s.rope_theta = theta;
    s.head_dim = s.rotary_dim = rotary_dim_;
    return s;
  }

  double theta_of(const PowerLaw& law) const {
    const double exponent = static_cast<double>(rotary_dim_) / 2;
    return round_number(std::exp(-law.slope * exponent), (3 * law.slope_error + drift_per_pair) * exponent);
  }

  // Whether the hypothesis's frequencies are the measured ones, pairs too slow to be seen included.
  double misfit(const RopeHypothesis& h) const {
    double chi = 0;
    for (std::size_t i = 0; i < measured_.value.size(); ++i) {
      const double expected = h.sign * h.position_scale * h.frequencies.inv_freq[i];
      const double error = measured_.error[i] + frequency_rounding * std::abs(expected);
      const double off = (measured_.value[i] - expected) / error;
      chi += std::min(off * off, 1e6);
    }
    return chi / static_cast<double>(measured_.value.size());
  }

  bool near_attention_factor(double value) const {
    return std::abs(attention_factor_ / value - 1) <= attention_factor_error_;
  }

  // Keeps the hypothesis if it fits, with the measured attention factor in its place.
  void keep(RopeHypothesis h) {
    h.sign = sign_;
    if (sign_ < 0) h.mistakes.insert(h.mistakes.begin(), "negative angle");
    const double off = misfit(h);
    if (off > 6) return;
    if (!near_attention_factor(h.frequencies.attention_factor)) {
      const double factor = near_attention_factor(1) ? 1 : round_number(attention_factor_, attention_factor_error_);
      h.frequencies.attention_factor = factor;
      h.scaling.attention_factor = factor;
    }
    // The nearest first; of equals the first tried.
    const auto at = std::upper_bound(offs_.begin(), offs_.end(), off + 1e-6);
    found_.insert(found_.begin() + (at - offs_.begin()), std::move(h));
    offs_.insert(at, off);
  }

  void power_law(const PowerLaw& law, std::optional<double> known_theta = std::nullopt) {
    RopeHypothesis h;
    RopeScaling s = base(known_theta ? *known_theta : theta_of(law));
    const double scale_error = 3 * law.log_scale_error + 2 * frequency_rounding;
    if (std::abs(law.log_scale) > scale_error) {
      if (law.log_scale < 0) {
        s.rope_type = linear_scaling;
        s.factor = round_number(std::exp(-law.log_scale), scale_error);
      } else {
        h.position_scale = round_number(std::exp(law.log_scale), scale_error);
        h.mistakes = {h.position_scale == 2 ? "positions doubled or rotated twice" : "positions multiplied"};
        h.detail = fmt::format("by {:.6g}", h.position_scale);
      }
    }
    set_scaling(h, s);
    keep(std::move(h));
  }

  // Frequencies over the whole head, of which the last stand still.
  void proportional() {
    std::size_t moving = 0;
    while (moving < points_.size() && points_[moving].pair == moving) ++moving;
    if (moving < 2 || moving != points_.size() || moving == measured_.value.size()) return;
    PowerLaw law = fit_power_law(points_, true);
    if (!law.fits()) return;
    RopeHypothesis h;
    RopeScaling s = base(theta_of(law));
    s.rope_type = proportional_scaling;
    s.partial_rotary_factor = static_cast<double>(moving) / static_cast<double>(measured_.value.size());
    const double scale_error = 3 * law.log_scale_error + 2 * frequency_rounding;
    s.factor = std::abs(law.log_scale) > scale_error ? round_number(std::exp(-law.log_scale), scale_error) : 1;
    set_scaling(h, s);
    keep(std::move(h));
  }

  // Fast pairs kept, slow ones divided, a ramp between. The base comes from the fast ones.
  void by_parts() {
    for (const bool free_scale : {false, true}) {
      // A free scale: ggml with an ext_factor below 1, which slows the fast pairs too.
      std::optional<PowerLaw> fast;
      for (std::size_t n = free_scale ? 3 : 2; n <= points_.size(); ++n) {
        const PowerLaw law =
            fit_power_law({points_.begin(), points_.begin() + static_cast<std::ptrdiff_t>(n)}, free_scale);
        if (!law.fits()) break;
        fast = law;
      }
      if (!fast) continue;
      const double theta = theta_of(*fast);
      const RopeScaling plain = base(theta);
      const auto w = plain_inv_freq(plain.rotary_dim, plain.rope_theta);
      std::vector<double> factors;
      const Point& last = points_.back();
      factors.push_back(round_number(w[last.pair] / std::exp(last.log_value), 3 * last.error + 1e-6));
      if (attention_factor_ > 1) {
        factors.push_back(round_number(std::exp((attention_factor_ - 1) / 0.1), 10 * attention_factor_error_));
      }
      factors.insert(factors.end(), std::begin(known_factors), std::end(known_factors));
      for (double k : factors) {
        if (!(k > 1) || !std::isfinite(k)) continue;
        for (double length : known_lengths) {
          if (free_scale) {
            weighted_ramp(plain, k, length, std::exp(fast->log_scale));
          } else {
            ramps(plain, k, length);
          }
        }
      }
      if (!found_.empty()) return;
    }
  }

  void ramps(const RopeScaling& plain, double k, double length) {
    RopeScaling s = plain;
    s.factor = k;
    s.original_max_position_embeddings = length;
    const auto attempt = [&](RopeType type, bool truncate, YarnRamp ramp) {
      s.rope_type = type;
      s.truncate = truncate;
      s.yarn_ramp = ramp;
      RopeHypothesis h;
      set_scaling(h, s);
      keep(std::move(h));
    };
    attempt(yarn_scaling, true, YarnRamp::code);
    attempt(yarn_scaling, false, YarnRamp::code);
    attempt(llama3_scaling, true, YarnRamp::code);
    attempt(ntk_by_parts_scaling, true, YarnRamp::code);
  }

  void weighted_ramp(const RopeScaling& plain, double k, double length, double fastest) {
    GgmlRope rope;
    rope.n_dims = rotary_dim_;
    rope.n_ctx_orig = static_cast<std::int64_t>(length);
    rope.freq_base = plain.rope_theta;
    rope.freq_scale = 1 / k;
    rope.ext_factor = round_number((fastest - 1 / k) / (1 - 1 / k), 1e-5);
    if (!(rope.ext_factor > 0 && rope.ext_factor < 1)) return;
    RopeHypothesis h;
    h.scaling = plain;
    h.scaling.rope_type = yarn_scaling;
    h.scaling.factor = k;
    h.scaling.original_max_position_embeddings = length;
    h.frequencies = ggml_frequencies(rope);
    h.bent = true;
    h.detail = fmt::format("ggml's ext_factor {:.6g}", rope.ext_factor);
    keep(std::move(h));
  }

  const MeasuredFrequencies& measured_;
  double attention_factor_, attention_factor_error_;
  std::int64_t rotary_dim_;
  double sign_ = 1;
  std::vector<Point> points_;
  std::vector<RopeHypothesis> found_;
  std::vector<double> offs_;  // their misfits
};

// Turns at two places, apart by a gap.
struct Gap {
  std::size_t from, to;
};

// Phase differences between places, the smallest gap first: it tells a frequency up to whole turns, which it rules
// out; each larger gap sharpens it as long as the error leaves no doubt about the number of turns.
std::optional<MeasuredFrequencies> measure_frequencies(const TurnEvidence& evidence, const MeasuredTurns& m) {
  const auto positions = evidence.positions();
  std::map<double, std::vector<Gap>> gaps;
  const bool has_origin = positions.front() == 0;
  for (std::size_t s = 0; s < positions.size(); ++s) {
    for (std::size_t t = s + 1; t < positions.size(); ++t) {
      if (positions[t] > positions[s]) gaps[positions[t] - positions[s]].push_back({s, t});
    }
  }
  // Without neighbours, a first place that no pair turns by half a turn can be compared with the origin.
  constexpr std::size_t origin = std::numeric_limits<std::size_t>::max();
  if ((gaps.empty() || gaps.begin()->first > 1) && !has_origin && positions.front() > 0 && positions.front() <= 3) {
    for (std::size_t s = 0; s < positions.size(); ++s) gaps[positions[s]].push_back({origin, s});
  }
  if (gaps.empty() || gaps.begin()->first > 3) return std::nullopt;

  const auto n_pairs = static_cast<std::size_t>(m.n_pairs);
  MeasuredFrequencies f;
  for (std::size_t i = 0; i < n_pairs; ++i) {
    double value = 0, error = std::numeric_limits<double>::infinity();
    for (const auto& [gap, places] : gaps) {
      if (std::isfinite(error) && error * gap > 0.5) break;
      Complex sum;
      double variance = 0, weight_sum = 0;
      for (const Gap& g : places) {
        const Complex from = g.from == origin ? Complex(1, 0) : m.turn[g.from * n_pairs + i];
        const double weight_from =
            g.from == origin ? std::numeric_limits<double>::infinity() : m.weight[g.from * n_pairs + i];
        const double weight = std::min(weight_from, m.weight[g.to * n_pairs + i]);
        if (weight == 0) continue;
        const Complex turned = m.turn[g.to * n_pairs + i] * std::conj(from);
        if (std::abs(turned) == 0) continue;
        sum += weight * turned / std::abs(turned);
        const double noise =
            evidence.noise_at(positions[g.to]) + (g.from == origin ? 0 : evidence.noise_at(positions[g.from]));
        variance += weight * noise * noise;
        weight_sum += weight;
      }
      if (weight_sum == 0) continue;
      const double phase_error = std::sqrt(variance) / weight_sum;
      const double phase = std::arg(sum);
      const double turns = std::isfinite(error) ? std::round((value * gap - phase) / (2 * std::numbers::pi)) : 0;
      if (phase_error / gap < error) {
        value = (phase + 2 * std::numbers::pi * turns) / gap;
        error = phase_error / gap;
      }
    }
    f.value.push_back(value);
    f.error.push_back(std::isfinite(error) ? error : 1e300);
  }
  return f;
}

// Whole tokens by which the positions are ahead, where the turns say so.
double find_offset(const TurnEvidence& evidence, const MeasuredTurns& m, const RopeHypothesis& h) {
  const RopeTurns turns(h);
  const auto n_pairs = static_cast<std::size_t>(m.n_pairs);
  std::vector<Complex> lead(n_pairs), step(n_pairs);  // of the measured over the expected turns
  double weight_sum = 0;
  for (std::size_t i = 0; i < n_pairs; ++i) {
    for (std::size_t s = 0; s < evidence.positions().size(); ++s) {
      const double noise = evidence.noise_at(evidence.positions()[s]) / evidence.noise();
      lead[i] += m.weight[s * n_pairs + i] / (noise * noise) * m.turn[s * n_pairs + i] *
                 std::conj(turns(evidence.positions()[s], static_cast<std::int64_t>(i)));
    }
    weight_sum += std::abs(lead[i]);
    step[i] = std::polar(1.0, -h.sign * h.frequencies.inv_freq[i]);
  }
  const auto agreement = [&](double offset) {
    double sum = 0;
    for (std::size_t i = 0; i < n_pairs; ++i) {
      sum += (lead[i] * std::polar(1.0, -h.sign * h.frequencies.inv_freq[i] * offset)).real();
    }
    return sum;
  };
  if (agreement(0) > 0.9999 * weight_sum) return 0;
  constexpr int reach = 1 << 17;
  double best = 0, best_agreement = agreement(0);
  std::vector<Complex> at(lead);
  for (std::size_t i = 0; i < n_pairs; ++i) at[i] *= std::polar(1.0, h.sign * h.frequencies.inv_freq[i] * reach);
  for (int offset = -reach; offset <= reach; ++offset) {
    double sum = 0;
    for (std::size_t i = 0; i < n_pairs; ++i) {
      sum += at[i].real();
      at[i] *= step[i];
    }
    if (sum > best_agreement) {
      best_agreement = sum;
      best = offset;
    }
  }
  return best;
}

// Tries known parameters where no neighbours tell the frequencies.
class Dictionary {
 public:
  Dictionary(const TurnEvidence& evidence, const MeasuredTurns& m) : evidence_(evidence), m_(m) {
    for (std::size_t s = 0; s < evidence.positions().size() && places_.size() < 6; ++s) {
      if (evidence.positions()[s] != 0) places_.push_back(s);
    }
  }

  std::vector<RopeHypothesis> look_up() {
    if (places_.empty()) return {};
    for (double sign : {1.0, -1.0}) {
      sign_ = sign;
      for (double theta : known_bases) {
        if (found_.size() < most_found) with_base(theta);
      }
    }
    if (found_.size() > most_found) found_.resize(most_found);
    return std::move(found_);
  }

 private:
  // Whether the first `n` pairs turned so at the chosen places.
  bool agrees(const std::vector<double>& inv_freq, std::size_t n) const {
    const auto n_pairs = static_cast<std::size_t>(m_.n_pairs);
    for (std::size_t s : places_) {
      const double position = evidence_.positions()[s];
      for (std::size_t i = 0; i < n; ++i) {
        if (m_.weight[s * n_pairs + i] < 0.2) continue;
        const Complex expected = std::polar(m_.attention_factor, sign_ * position * inv_freq[i]);
        const double off = std::abs(m_.turn[s * n_pairs + i] - expected) / m_.attention_factor;
        if (off > 12 * evidence_.noise_at(position)) return false;
      }
    }
    return true;
  }

  void attempt(const RopeScaling& scaling) {
    RopeHypothesis h;
    set_scaling(h, scaling);
    if (!agrees(h.frequencies.inv_freq, h.frequencies.inv_freq.size())) return;
    const double error = 3 * evidence_.noise();
    const double factor = h.frequencies.attention_factor;
    if (std::abs(m_.attention_factor / factor - 1) > error) {
      h.frequencies.attention_factor =
          std::abs(m_.attention_factor - 1) <= error ? 1 : round_number(m_.attention_factor, error);
      h.scaling.attention_factor = h.frequencies.attention_factor;
    }
    h.sign = sign_;
    if (sign_ < 0) h.mistakes = {"negative angle"};
    found_.push_back(std::move(h));
  }

  void with_base(double theta) {
    RopeScaling s;
    s.rope_theta = theta;
    s.head_dim = s.rotary_dim = 2 * m_.n_pairs;
    attempt(s);
    RopeScaling linear = s;
    linear.rope_type = linear_scaling;
    for (double k : known_factors) {
      linear.factor = k;
      attempt(linear);
    }
    const auto plain = plain_inv_freq(s.rotary_dim, s.rope_theta);
    // By-parts methods keep the fastest pairs.
    if (!agrees(plain, std::min<std::size_t>(plain.size(), 2))) return;
    std::vector<double> factors(std::begin(known_factors), std::end(known_factors));
    if (m_.attention_factor > 1) {
      factors.insert(factors.begin(), round_number(std::exp((m_.attention_factor - 1) / 0.1), 30 * evidence_.noise()));
    }
    for (double k : factors) {
      for (double length : known_lengths) {
        RopeScaling parts = s;
        parts.factor = k;
        parts.original_max_position_embeddings = length;
        for (RopeType type : std::vector<RopeType>{yarn_scaling, llama3_scaling, ntk_by_parts_scaling}) {
          parts.rope_type = type;
          parts.truncate = true;
          attempt(parts);
          if (type != yarn_scaling) continue;
          parts.truncate = false;
          attempt(parts);
        }
      }
    }
  }

  const TurnEvidence& evidence_;
  const MeasuredTurns& m_;
  std::vector<std::size_t> places_;
  double sign_ = 1;
  std::vector<RopeHypothesis> found_;
};

bool same_word(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)); }

bool is_known_base(double theta) {
  return std::find(std::begin(known_bases), std::end(known_bases), theta) != std::end(known_bases);
}

// Where the slowest pairs do not visibly turn, every greater width fits too: the whole head, the usual shares of it and
// the least width stand for them.
std::vector<std::pair<RopeLayout, std::int64_t>> likely_pairings(const TurnEvidence& evidence) {
  const auto& plausible = evidence.plausible_pairings();
  if (evidence.head_dim() == 0) return {plausible.front()};
  std::vector<std::pair<RopeLayout, std::int64_t>> likely;
  for (RopeLayout layout : {RopeLayout::half, RopeLayout::interleaved}) {
    std::int64_t least = evidence.head_dim() + 1;
    for (const auto& p : plausible) {
      if (p.first == layout) least = std::min(least, p.second);
    }
    std::vector<std::int64_t> widths;
    for (double share : {1.0, 0.75, 0.5, 0.4, 0.25}) {
      widths.push_back(static_cast<std::int64_t>(static_cast<double>(evidence.head_dim()) * share));
    }
    widths.push_back(least);
    for (std::int64_t width : widths) {
      const std::pair pairing{layout, width};
      if (std::find(plausible.begin(), plausible.end(), pairing) == plausible.end()) continue;
      if (std::find(likely.begin(), likely.end(), pairing) == likely.end()) likely.push_back(pairing);
    }
  }
  return likely;
}

}  // namespace

std::vector<RopeHypothesis> explain_frequencies(const MeasuredFrequencies& measured, double attention_factor,
                                                double attention_factor_error) {
  std::vector<RopeHypothesis> found = Explainer(measured, attention_factor, attention_factor_error).explain();
  const double fastest = std::abs(measured.value.front());
  if (!found.empty() || std::abs(fastest - 2) > 8 * measured.error.front() + 4 * frequency_rounding) return found;
  // Twice the angle of a scaling that keeps its fastest pair; turned twice, the attention factor counts twice.
  MeasuredFrequencies half = measured;
  for (double& w : half.value) w /= 2;
  for (double& e : half.error) e /= 2;
  const bool plain = std::abs(attention_factor - 1) <= attention_factor_error;
  const auto doubled = [&](double factor, const char* name) {
    for (RopeHypothesis& h : Explainer(half, factor, attention_factor_error).explain()) {
      h.position_scale = 2;
      h.frequencies.attention_factor *= attention_factor / factor;
      h.mistakes.push_back(plain ? "positions doubled or rotated twice" : name);
      found.push_back(std::move(h));
    }
  };
  doubled(std::sqrt(attention_factor), "rotated twice");
  if (!plain) doubled(attention_factor, "positions doubled");
  return found;
}

std::vector<RopeHypothesis> infer_hypotheses(const TurnEvidence& evidence) {
  std::vector<RopeHypothesis> all;
  for (const auto& [layout, rotary_dim] : likely_pairings(evidence)) {
    const MeasuredTurns& m = *evidence.measured(layout, rotary_dim);
    const auto frequencies = measure_frequencies(evidence, m);
    std::vector<RopeHypothesis> found;
    if (frequencies) found = explain_frequencies(*frequencies, m.attention_factor, 3 * evidence.noise());
    if (found.empty()) found = Dictionary(evidence, m).look_up();
    for (RopeHypothesis& h : found) {
      h.layout = layout;
      all.push_back(shifted(evidence, h).value_or(h));
    }
  }
  // Slow pairs that noise hides leave width and base undecided together: a base in use is likelier. A narrow block of
  // one base can also be read as the first pairs of a wider one of another; the block is likelier.
  std::stable_partition(all.begin(), all.end(), [](const RopeHypothesis& h) {
    return is_known_base(h.scaling.rope_theta) && h.scaling.rope_type != proportional_scaling;
  });
  return all;
}

std::optional<RopeHypothesis> shifted(const TurnEvidence& evidence, const RopeHypothesis& hypothesis) {
  const MeasuredTurns* m = evidence.measured(hypothesis.layout, hypothesis.rotary_dim());
  const double offset = m ? find_offset(evidence, *m, hypothesis) : 0;
  if (offset == 0) return std::nullopt;
  RopeHypothesis ahead = hypothesis;
  ahead.position_offset += offset;
  ahead.mistakes.push_back("positions shifted");
  ahead.detail = fmt::format("by {:+}", offset);
  return ahead;
}

void name_differences(const RopeHypothesis& meant, RopeHypothesis& found) {
  std::vector<std::string> names, details;
  const auto differs = [&](std::string name, std::string detail) {
    names.push_back(std::move(name));
    details.push_back(std::move(detail));
  };
  if (found.layout != meant.layout) differs("pairing swapped", std::string(to_word(found.layout)));
  if (found.rotary_dim() != meant.rotary_dim()) {
    differs("another rotary_dim", fmt::format("{} instead of {}", found.rotary_dim(), meant.rotary_dim()));
  }
  if (!same_word(found.scaling.rope_theta, meant.scaling.rope_theta)) {
    differs(found.scaling.rope_theta == 10000 ? "base default used" : "another base",
            fmt::format("{} instead of {}", found.scaling.rope_theta, meant.scaling.rope_theta));
  }
  if (found.scaling.rope_type != meant.scaling.rope_type) {
    differs("another scaling",
            fmt::format("{} instead of {}", to_word(found.scaling.rope_type), to_word(meant.scaling.rope_type)));
  } else if (found.scaling.factor && meant.scaling.factor && !same_word(*found.scaling.factor, *meant.scaling.factor)) {
    differs("another factor", fmt::format("{} instead of {}", *found.scaling.factor, *meant.scaling.factor));
  }
  if (!same_word(found.frequencies.attention_factor, meant.frequencies.attention_factor)) {
    differs("another attention factor", fmt::format("{:.7g} instead of {:.7g}", found.frequencies.attention_factor,
                                                    meant.frequencies.attention_factor));
  }
  if (names.empty() && found.mistakes.empty()) differs("other frequencies", "");
  found.mistakes.insert(found.mistakes.begin(), names.begin(), names.end());
  for (const std::string& detail : details) {
    if (!detail.empty()) found.detail += (found.detail.empty() ? "" : "; ") + detail;
  }
}

std::vector<RopeHypothesis> infer_hypotheses(const FrequencyEvidence& evidence) {
  return explain_frequencies(evidence.measured(), 1, 1e-6);
}

}  // namespace poslab
