// The inner loops of attention with its gradient: products of small panels whose sums stay in registers, and softmax
// row by row. All arrays are packed by the caller; W = width.
#pragma once

#include <cstdint>

#include "poslab/kernels/per_isa.h"

namespace poslab::kernels {

// Rows of a panel: queries, or keys where their gradients are summed.
inline constexpr std::int64_t gradient_rows = 12;

template <class T>
struct AttentionGradientKernel {
  std::int64_t width;  // W: two vectors

  // out[r][j] = sum over c of a[c][r] * b[j / W][c][j mod W], r < 12, j < n (a multiple of W).
  //   a [depth, 12], b [n / W, depth, W], out rows `stride` apart
  void (*products)(std::int64_t depth, std::int64_t n, const T* a, const T* b, T* out, std::int64_t stride);

  // sums[k][r][i] += sum over s < steps of a[r * row_stride + s * step_stride] * b[k][s][i], k < blocks, r < 12, i < W.
  //   b blocks b_stride apart, sums [blocks] block stride sums_stride, rows W apart
  // add_by_row: the 12 rows lie `stride` apart and the steps side by side; add_by_column: the other way round.
  void (*add_by_row)(std::int64_t steps, std::int64_t blocks, const T* a, std::int64_t stride, const T* b,
                     std::int64_t b_stride, T* sums, std::int64_t sums_stride);
  void (*add_by_column)(std::int64_t steps, std::int64_t blocks, const T* a, std::int64_t stride, const T* b,
                        std::int64_t b_stride, T* sums, std::int64_t sums_stride);

  // One row of scores, in nats, becomes weights exp(score - max) for keys begin .. end - 1 and 0 for the others of
  // n; returns max and the sum of the weights.
  struct Softmax {
    T max, sum;
  };
  Softmax (*softmax)(std::int64_t n, std::int64_t begin, std::int64_t end, T* scores);

  // One row of scores becomes weights w = exp(score - log_sum), and d_weights becomes d_scores w * (d - mean); both 0
  // outside begin .. end - 1.
  void (*softmax_gradient)(std::int64_t n, std::int64_t begin, std::int64_t end, T log_sum, T mean, T* scores,
                           T* d_weights);
};

struct AttentionGradientKernels {
  AttentionGradientKernel<float> f32;
  AttentionGradientKernel<double> f64;
};
POSLAB_DECLARE_PER_ISA(AttentionGradientKernels, attention_gradient_kernels)

}  // namespace poslab::kernels
