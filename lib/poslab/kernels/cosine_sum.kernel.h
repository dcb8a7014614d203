// The loops of cosine_sum.h for one instruction set.
#pragma once

#include <cstddef>

#include "poslab/kernels/per_isa.h"

namespace poslab::kernels {

// Neighbours that step together; fixed, so that every instruction set rounds alike.
constexpr std::size_t cosine_lanes = 8;

struct CosineSumKernels {
  // out[j] = sum_i cos((m0 + j) w_i), j = 0 .. n - 1, n a multiple of 2 * cosine_lanes.
  //
  //   inv_freq        [n_pairs]                    w_i; a multiple of cosine_lanes may be read
  //   starts          [n_pairs, 4, cosine_lanes]   cos and sin of j w_i, then of (j + cosine_lanes) w_i
  //   twice_cos       [n_pairs]                    2 cos(cosine_lanes w_i)
  void (*fill)(double m0, const double* inv_freq, const double* starts, const double* twice_cos, std::size_t n_pairs,
               double* out, std::size_t n);

  // out = value, slope, curvature and sum of angle_i (1 + t x_i + i) at base e^t, with ratio = e^(-t / n_pairs).
  //
  //   exponents       [n]   x_i = i / n_pairs, n a multiple of cosine_lanes
  //   weights         [n]   1, or 0 for padding
  void (*at_base)(double t, double ratio, double m, const double* exponents, const double* weights, std::size_t n,
                  double* out);
};
POSLAB_DECLARE_PER_ISA(CosineSumKernels, cosine_sum_kernels)

}  // namespace poslab::kernels
