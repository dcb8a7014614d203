// B(m) = sum_i cos(m * inv_freq_i), the quantity of RoPE's base bounds: for runs of integer distances at given
// frequencies, and at one distance with its derivatives in the logarithm of the base. Every instruction set gives the
// same bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "poslab/kernels/isa.h"

namespace poslab {

// Sums at m = 0, 1, 2, ... up to max_distance, within n_pairs * 5e-13 + 2.3e-16 * m * sum(inv_freq) of the true ones.
class CosineSums {
 public:
  static constexpr std::int64_t block = 512;  // distances between two angles that are reduced afresh
  static constexpr std::int64_t max_distance = 1 << 24;
  static constexpr double max_inv_freq = 3.2;

  // inv_freq [n_pairs], radians per token, none above max_inv_freq in magnitude.
  explicit CosineSums(std::span<const double> inv_freq, Isa isa = active_isa());

  // out[j] = B(block * index + j), j = 0 .. block - 1.
  void fill_block(std::int64_t index, std::span<double, block> out) const;

 private:
  std::vector<double> inv_freq_;
  std::vector<double> starts_, twice_cos_;  // what the recurrence starts from, see cosine_sum.kernel.h
  Isa isa_;
};

// B(m) for inv_freq_i = e^(-t i / n_pairs), that is for the base e^t, with derivatives in t.
struct CosineSumPoint {
  double value = 0, slope = 0;
  double curvature = 0;  // bounds |d2B/dt2| from t upwards, as frequencies fall
  double rounding = 0;   // bounds the error of `value`
};

class CosineSumInBase {
 public:
  explicit CosineSumInBase(std::int64_t n_pairs, Isa isa = active_isa());

  CosineSumPoint at(double t, double m) const;  // t >= 0, 0 <= m <= CosineSums::max_distance

 private:
  std::int64_t n_pairs_;
  std::vector<double> exponents_, weights_;  // [n_pairs rounded up to whole steps]: i / n_pairs and 1, then 0 and 0
  Isa isa_;
};

}  // namespace poslab
