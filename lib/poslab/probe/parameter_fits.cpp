#include "poslab/probe/parameter_fits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>

#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

constexpr double bases[] = {1e3, 1e4, 2e4,   2.6e4, 4e4, 5e4, 8e4, 1e5, 1.3e5, 1.5e5, 1.6e5, 2e5, 2.5e5, 3e5,
                            5e5, 6e5, 6.4e5, 1e6,   2e6, 4e6, 5e6, 8e6, 1e7,   2e7,   5e7,   1e8, 1e9,   1e11};
constexpr double factors[] = {1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 30, 32, 40, 48, 64, 128};
constexpr double lengths[] = {512,   1024,   2048,   4096,   8192,    16384,  32768,
                              65536, 131072, 262144, 524288, 1048576, 2097152};
constexpr double rotations[] = {0.25, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128};

struct Parameter {
  std::string name;
  std::span<const double> values;
  std::function<void(RopeScaling&, double)> set;
  std::function<double(const RopeScaling&)> get;
};

std::vector<Parameter> parameters() {
  const auto optional = [](std::optional<double> RopeScaling::*member) {
    return std::pair([member](RopeScaling& s, double v) { s.*member = v; },
                     [member](const RopeScaling& s) { return (s.*member).value_or(0); });
  };
  const auto plain = [](double RopeScaling::*member) {
    return std::pair([member](RopeScaling& s, double v) { s.*member = v; },
                     [member](const RopeScaling& s) { return s.*member; });
  };
  const auto [set_base, base] = plain(&RopeScaling::rope_theta);
  const auto [set_factor, factor] = optional(&RopeScaling::factor);
  const auto [set_length, length] = optional(&RopeScaling::original_max_position_embeddings);
  const auto [set_fast, fast] = plain(&RopeScaling::beta_fast);
  const auto [set_slow, slow] = plain(&RopeScaling::beta_slow);
  const auto [set_low, low] = plain(&RopeScaling::low_freq_factor);
  const auto [set_high, high] = plain(&RopeScaling::high_freq_factor);
  return {{"base", bases, set_base, base},
          {"factor", factors, set_factor, factor},
          {"original length", lengths, set_length, length},
          {"beta_slow", rotations, set_slow, slow},
          {"beta_fast", rotations, set_fast, fast},
          {"low_freq_factor", rotations, set_low, low},
          {"high_freq_factor", rotations, set_high, high}};
}

class Fits {
 public:
  Fits(const RopeHypothesis& meant, const MeasuredFrequencies& measured) : meant_(meant), measured_(measured) {}

  std::vector<RopeHypothesis> find() {
    const std::vector<Parameter> all = parameters();
    for (const Parameter& p : all) {
      if (matters(p)) one(p);
    }
    other_scalings();
    if (!found_.empty()) return std::move(found_);
    for (std::size_t a = 0; a < all.size(); ++a) {
      for (std::size_t b = a + 1; b < all.size(); ++b) {
        if (matters(all[a]) && matters(all[b])) two(all[a], all[b]);
      }
    }
    constexpr std::size_t most = 3;
    if (found_.size() > most) found_.resize(most);
    return std::move(found_);
  }

 private:
  // The worst distance over its error.
  double distance(const RopeScaling& s) const {
    try {
      const std::vector<double> w = rope_frequencies(s, meant_.seq_len).inv_freq;
      if (w.size() != measured_.value.size()) return 1e300;
      double worst = 0;
      for (std::size_t i = 0; i < w.size(); ++i) {
        const double expected = meant_.sign * meant_.position_scale * w[i];
        const double error = 4 * measured_.error[i] + 0x1p-18 * std::abs(expected);
        worst = std::max(worst, std::abs(measured_.value[i] - expected) / error);
      }
      return std::isfinite(worst) ? worst : 1e300;
    } catch (const std::invalid_argument&) {
      return 1e300;
    }
  }

  bool matters(const Parameter& p) const {
    RopeScaling s = meant_.scaling;
    p.set(s, 3 * p.get(s) + 1);
    try {
      return rope_frequencies(s, meant_.seq_len).inv_freq != rope_frequencies(meant_.scaling, meant_.seq_len).inv_freq;
    } catch (const std::invalid_argument&) {
      return false;
    }
  }

  void keep(const RopeScaling& s, std::vector<std::string> mistakes, std::string detail) {
    RopeHypothesis h = meant_;
    set_scaling(h, s);
    h.mistakes = std::move(mistakes);
    h.detail = std::move(detail);
    found_.push_back(std::move(h));
  }

  static std::string difference(const Parameter& p, double found, double meant) {
    return fmt::format("{} {:.7g} instead of {:.7g}", p.name, found, meant);
  }

  void one(const Parameter& p) {
    RopeScaling s = meant_.scaling;
    const double meant = p.get(s);
    double best = 0, least = 1e300;
    const auto consider = [&](double value) {
      if (value == meant) return;
      p.set(s, value);
      const double d = distance(s);
      if (d >= least) return;
      least = d;
      best = value;
    };
    for (double value : p.values) consider(value);
    for (double value : {meant * 2, meant / 2, meant * 4, meant / 4, meant * 10, meant / 10}) consider(value);
    if (least > 1) {
      for (double value = p.values.front(); value <= p.values.back(); value *= 1.02) consider(value);
      for (double step = 0.02; step > 1e-8; step /= 3) {
        for (int k = 0; k < 20; ++k) {
          const double here = best;
          consider(here * (1 + step));
          consider(here / (1 + step));
          if (best == here) break;
        }
      }
    }
    if (least > 1) return;
    best = plainest(p, s, best);
    p.set(s, best);
    keep(s, {"another " + p.name}, difference(p, best, meant));
  }

  // The number with the fewest digits that does as well.
  double plainest(const Parameter& p, RopeScaling s, double found) const {
    const double magnitude = std::floor(std::log10(std::abs(found)));
    for (int digits = 1; digits <= 6; ++digits) {
      const double step = std::pow(10.0, magnitude - digits + 1);
      const double rounded = std::round(found / step) * step;
      p.set(s, rounded);
      if (distance(s) <= 1) return rounded;
    }
    return found;
  }

  void two(const Parameter& a, const Parameter& b) {
    for (double first : a.values) {
      for (double second : b.values) {
        RopeScaling s = meant_.scaling;
        const double meant_a = a.get(s), meant_b = b.get(s);
        if (first == meant_a || second == meant_b) continue;
        a.set(s, first);
        b.set(s, second);
        if (distance(s) > 1) continue;
        keep(s, {"another " + a.name, "another " + b.name},
             difference(a, first, meant_a) + ", " + difference(b, second, meant_b));
        return;
      }
    }
  }

  void other_scalings() {
    for (const Scaling* row : all_scalings) {
      const RopeType type = *row;
      if (type == meant_.scaling.rope_type) continue;
      RopeScaling s = meant_.scaling;
      s.rope_type = type;
      if (distance(s) <= 1) {
        keep(s, {"another scaling"}, fmt::format("{} instead of {}", row->word, to_word(meant_.scaling.rope_type)));
      }
    }
  }

  const RopeHypothesis& meant_;
  const MeasuredFrequencies& measured_;
  std::vector<RopeHypothesis> found_;
};

}  // namespace

std::vector<RopeHypothesis> fit_parameters(const RopeHypothesis& meant, const MeasuredFrequencies& measured) {
  const bool told =
      std::all_of(measured.error.begin(), measured.error.end(), [](double e) { return std::isfinite(e); });
  return told ? Fits(meant, measured).find() : std::vector<RopeHypothesis>{};
}

}  // namespace poslab
