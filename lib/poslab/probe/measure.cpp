#include "poslab/probe/measure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>

namespace poslab {
namespace {

using Complex = std::complex<double>;
constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double full = 2 * std::numbers::pi;
constexpr double unit = 0x1p-24;

struct Sample {
  Complex value;
  double error = infinite;  // of each component, in units of x
};

// cos + i sin of every pair of a row, gains included.
void solve_row(const VectorDump& dump, const Pairing& pairing, std::size_t place, std::size_t vector,
               std::vector<Sample>& out) {
  const std::size_t row = place * static_cast<std::size_t>(dump.n_vectors) + vector;
  const double* x = dump.input.data() + dump.input_rows[row];
  const double* y = dump.output.data() + dump.output_rows[row];
  out.assign(static_cast<std::size_t>(pairing.n_pairs()), {});
  for (std::int64_t i = 0; i < pairing.n_pairs(); ++i) {
    const PairChannels in = pairing.in(i), to = pairing.out(i);
    const auto solved = pairing.solve(x[in.first], x[in.second], y[to.first], y[to.second]);
    if (solved.weight == 0) continue;
    const double size = std::hypot(x[in.first], x[in.second]);
    const double noise =
        half_ulp(dump.stored_as, y[to.first]) + half_ulp(dump.stored_as, y[to.second]) + 6 * unit * size;
    out[static_cast<std::size_t>(i)] = {solved.value, noise / (size * solved.weight)};
  }
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double share_off(const std::vector<Sample>& samples, double cos_gain, double sin_gain) {
  std::size_t off = 0;
  for (const Sample& s : samples) {
    const double length = std::hypot(s.value.real() / cos_gain, s.value.imag() / sin_gain);
    const double allowed = 1.5 * s.error / std::min(std::abs(cos_gain), std::abs(sin_gain)) + 16 * unit;
    off += std::abs(length - 1) > allowed ? 1 : 0;
  }
  return static_cast<double>(off) / static_cast<double>(samples.size());
}

// Gains of cos and sin apart, by least squares of (c/g)^2 + (s/h)^2 = 1.
std::optional<std::pair<double, double>> fit_ellipse(const std::vector<Sample>& samples) {
  double cc = 0, cs = 0, ss = 0, c1 = 0, s1 = 0;
  for (const Sample& v : samples) {
    const double c = v.value.real() * v.value.real(), s = v.value.imag() * v.value.imag();
    const double w = 1 / (v.error * v.error);
    cc += w * c * c, cs += w * c * s, ss += w * s * s, c1 += w * c, s1 += w * s;
  }
  const double determinant = cc * ss - cs * cs;
  if (!(determinant > 1e-9 * cc * ss)) return std::nullopt;
  const double a = (c1 * ss - s1 * cs) / determinant, b = (s1 * cc - c1 * cs) / determinant;
  if (!(a > 0) || !(b > 0)) return std::nullopt;
  return std::pair{1 / std::sqrt(a), 1 / std::sqrt(b)};
}

}  // namespace

Gains measure_gains(const VectorDump& dump, const Pairing& pairing, double wanted, const Selection& rows) {
  std::vector<Sample> samples, row;
  for (std::size_t place : rows.places) {
    for (std::size_t vector : rows.vectors) {
      solve_row(dump, pairing, place, vector, row);
      for (const Sample& s : row) {
        if (s.error < 0.05 && std::abs(s.value) > 0) samples.push_back(s);
      }
    }
  }
  Gains gains{wanted, wanted};
  if (samples.empty()) return gains;
  gains.told = true;
  gains.share_wrong = share_off(samples, wanted, wanted);
  if (gains.share_wrong <= 0.01) return gains;
  std::vector<double> lengths, errors;
  for (const Sample& s : samples) {
    lengths.push_back(std::abs(s.value));
    errors.push_back(s.error);
  }
  const double noise = median(errors) / std::sqrt(static_cast<double>(samples.size()));
  const double middle = median(lengths);
  const double common = share_off(samples, middle, middle);
  if (common < 0.5 * gains.share_wrong) gains = {middle, middle, 2 * noise / middle + 4 * unit, common, true};
  if (gains.share_wrong <= 0.01) return gains;
  const auto apart = fit_ellipse(samples);
  if (!apart) return gains;
  const double share = share_off(samples, apart->first, apart->second);
  if (share < 0.2 * gains.share_wrong) {
    gains = {apart->first, apart->second, 3 * noise / std::min(apart->first, apart->second) + 4 * unit, share, true};
  }
  return gains;
}

std::vector<double> measure_pair_gains(const VectorDump& dump, const Pairing& pairing, const Selection& rows) {
  const auto n = static_cast<std::size_t>(pairing.n_pairs());
  std::vector<double> sum(n), weight(n);
  std::vector<Sample> row;
  for (std::size_t place : rows.places) {
    for (std::size_t vector : rows.vectors) {
      solve_row(dump, pairing, place, vector, row);
      for (std::size_t i = 0; i < n; ++i) {
        if (!std::isfinite(row[i].error)) continue;
        const double w = 1 / (row[i].error * row[i].error);
        sum[i] += w * std::abs(row[i].value);
        weight[i] += w;
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i) sum[i] = weight[i] > 0 ? sum[i] / weight[i] : 0;
  return sum;
}

RowTurns measure_row(const VectorDump& dump, const Pairing& pairing, const Gains& gains, std::size_t place,
                     std::size_t vector) {
  std::vector<Sample> samples;
  solve_row(dump, pairing, place, vector, samples);
  RowTurns row;
  for (const Sample& s : samples) {
    const Complex turn(s.value.real() / gains.cos, s.value.imag() / gains.sin);
    const double length = std::abs(turn);
    const bool told = length > 0 && std::isfinite(s.error);
    row.turn.push_back(told ? turn / length : Complex(1, 0));
    row.error.push_back(told ? s.error / (length * std::min(std::abs(gains.cos), std::abs(gains.sin))) : infinite);
  }
  return row;
}

MeasuredFrequencies measure_frequencies(const VectorDump& dump, const Pairing& pairing, const Gains& gains,
                                        const Selection& rows) {
  const auto n = static_cast<std::size_t>(pairing.n_pairs());
  struct At {
    std::vector<Complex> sum;
    std::vector<double> weight;
  };
  std::map<double, At> at;
  at[0] = {std::vector<Complex>(n, 1e12), std::vector<double>(n, 1e12)};
  for (std::size_t place : rows.places) {
    for (std::size_t vector : rows.vectors) {
      const RowTurns row = measure_row(dump, pairing, gains, place, vector);
      At& here = at[dump.positions[place]];
      here.sum.resize(n);
      here.weight.resize(n);
      for (std::size_t i = 0; i < n; ++i) {
        const double weight = 1 / (row.error[i] * row.error[i]);
        here.sum[i] += weight * row.turn[i];
        here.weight[i] += weight;
      }
    }
  }
  struct Gap {
    double size, from, to;
  };
  std::vector<Gap> gaps;
  for (auto a = at.begin(); a != at.end(); ++a) {
    for (auto b = std::next(a); b != at.end(); ++b) gaps.push_back({b->first - a->first, a->first, b->first});
  }
  std::stable_sort(gaps.begin(), gaps.end(), [](const Gap& a, const Gap& b) { return a.size < b.size; });
  MeasuredFrequencies out;
  for (std::size_t i = 0; i < n; ++i) {
    double value = 0, error = infinite;
    for (const Gap& gap : gaps) {
      if (!std::isfinite(error) && gap.size > 3) break;
      if (std::isfinite(error) && error * gap.size > 0.3) break;
      const At &from = at[gap.from], &to = at[gap.to];
      if (!(from.weight[i] > 0) || !(to.weight[i] > 0)) continue;
      const double phase = std::arg(to.sum[i] * std::conj(from.sum[i]));
      const double noise = std::sqrt(1 / from.weight[i] + 1 / to.weight[i]) + 2 * unit * std::abs(value) * gap.to;
      const double turns = std::isfinite(error) ? std::round((value * gap.size - phase) / full) : 0;
      if (noise / gap.size < error) {
        value = (phase + full * turns) / gap.size;
        error = noise / gap.size;
      }
    }
    out.value.push_back(value);
    out.error.push_back(error);
  }
  return out;
}

std::optional<UsedPosition> solve_position(const RowTurns& row, std::span<const double> frequency, double reach) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < frequency.size(); ++i) {
    if (frequency[i] != 0 && row.error[i] < 0.5) order.push_back(i);
  }
  if (order.empty()) return std::nullopt;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return std::abs(frequency[a]) < std::abs(frequency[b]); });
  const double slowest = frequency[order.front()], period = full / std::abs(slowest);
  std::vector<double> phase(frequency.size());
  for (std::size_t i : order) phase[i] = std::arg(row.turn[i]);
  const auto wraps = static_cast<int>(std::min(64.0, std::ceil(reach / period)));
  std::optional<UsedPosition> best;
  double best_misfit = 25;  // squared errors per pair
  for (int step = 0; step <= 2 * wraps; ++step) {
    const int wrap = step % 2 == 1 ? (step + 1) / 2 : -step / 2;
    double value = (phase[order.front()] + full * wrap * (slowest < 0 ? -1 : 1)) / slowest;
    double variance = 0, misfit = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
      const double w = frequency[order[k]];
      const double drift = std::abs(w * value) * (8 + 2 * static_cast<double>(order[k])) * unit;
      const double error = row.error[order[k]] + drift;
      if (k == 0) {
        variance = error * error / (w * w);
        continue;
      }
      double off = phase[order[k]] - w * value;
      off -= full * std::round(off / full);
      const double expected = w * w * variance + error * error;
      misfit += off * off / expected;
      const double gain = variance * w / expected;
      value += gain * off;
      variance *= std::max(0.0, 1 - gain * w);
    }
    misfit /= static_cast<double>(std::max<std::size_t>(1, order.size() - 1));
    if (misfit < best_misfit && std::abs(value) <= 2 * reach) {
      best_misfit = misfit;
      best = UsedPosition{value, std::sqrt(variance)};
    }
    if (best && best_misfit < 2) break;
  }
  if (best) {
    const double whole = std::round(best->value);
    if (std::abs(best->value - whole) <= 4 * best->error + 4 * unit * std::abs(whole) + 1e-9) best->value = whole;
  }
  return best;
}

}  // namespace poslab
