// The loops of a transformer that are no matrix product, in f32, for one instruction set. What each computes stands in
// models/pointwise.h.
#pragma once

#include <cstdint>

#include "poslab/kernels/per_isa.h"

namespace poslab::kernels {

struct TransformerKernels {
  // n values, any number.
  void (*gelu)(std::int64_t n, const float* u, float* out);
  void (*gelu_backward)(std::int64_t n, const float* u, const float* d_out, float* out, float* d_u);
  // out = silu(gate) * up.
  void (*swiglu)(std::int64_t n, const float* gate, const float* up, float* out);
  void (*swiglu_backward)(std::int64_t n, const float* gate, const float* up, const float* d_out, float* out,
                          float* d_gate, float* d_up);
  // The tanh form of gelu, and in silu's place.
  void (*gelu_tanh)(std::int64_t n, const float* u, float* out);
  void (*geglu_tanh)(std::int64_t n, const float* gate, const float* up, float* out);
  // One row of d channels, in place or not; bias null: RMSNorm, without a mean.
  void (*norm)(std::int64_t d, float eps, const float* x, const float* gain, const float* bias, float* out);
  // d_x, d_gain and d_bias (null: RMSNorm) are added to.
  void (*norm_backward)(std::int64_t d, float eps, const float* x, const float* gain, const float* d_out, float* d_x,
                        float* d_gain, float* d_bias);
  // Returns ln(sum of exp(logits)); with a scale other than 0 the logits become scale * softmax(logits).
  float (*log_sum_exp)(std::int64_t n, float* logits, float scale);
  void (*add_bias)(std::int64_t rows, std::int64_t n, const float* bias, float* x);
  void (*add_column_sums)(std::int64_t rows, std::int64_t n, const float* x, float* sums);
};
POSLAB_DECLARE_PER_ISA(TransformerKernels, transformer_kernels)

}  // namespace poslab::kernels
