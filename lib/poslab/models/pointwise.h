// The parts of a transformer that are no matrix product, forward and backward, on a few rows at a time.
#pragma once

#include <cstdint>

#include "poslab/models/transformer_config.h"

namespace poslab {

// gain and bias [d]; bias null for RMSNorm.
template <class T>
struct NormParameters {
  NormKind kind;
  double eps;
  const T *gain, *bias;
};

//   layer_norm  out = (x - mean) / sqrt(variance + eps) gain + bias   (Ba et al. 2016, arXiv:1607.06450)
//   rms_norm    out = x / sqrt(mean(x^2) + eps) gain                  (Zhang and Sennrich 2019, arXiv:1910.07467)
// x, out [rows, d], which may be the same.
template <class T>
void norm_forward(const NormParameters<T>& norm, std::int64_t rows, std::int64_t d, const T* x, T* out);

// d_x, d_gain and d_bias are added to.
template <class T>
void norm_backward(const NormParameters<T>& norm, std::int64_t rows, std::int64_t d, const T* x, const T* d_out, T* d_x,
                   T* d_gain, T* d_bias);

// u [rows, up_width] -> out [rows, d_ff]: gelu(u), or activation(gate) * up with u = gate, up side by side.
template <class T>
void activation_forward(MlpKind kind, std::int64_t rows, std::int64_t d_ff, const T* u, T* out);

// out as above; d_u [as u] from d_out [rows, d_ff]. For gelu and swiglu.
template <class T>
void activation_backward(MlpKind kind, std::int64_t rows, std::int64_t d_ff, const T* u, const T* d_out, T* out,
                         T* d_u);

// Every row of x [rows, n] += bias [n].
template <class T>
void add_bias(std::int64_t rows, std::int64_t n, const T* bias, T* x);

// sums [n] += the rows of x [rows, n], in order.
template <class T>
void add_column_sums(std::int64_t rows, std::int64_t n, const T* x, T* sums);

// ln(sum of exp(logits)), of one row [n].
template <class T>
double log_sum_exp(std::int64_t n, T* logits);

// One row of logits [n] against its target: returns -ln softmax(logits)[target] in nats and, where `scale` is not 0,
// turns the logits into scale * (softmax(logits) - onehot(target)), the loss's gradient.
template <class T>
double cross_entropy(std::int64_t n, T* logits, std::int64_t target, double scale);

}  // namespace poslab
