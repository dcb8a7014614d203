#include "poslab/models/pointwise.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <type_traits>

#include "poslab/kernels/isa.h"
#include "poslab/kernels/transformer.kernel.h"

namespace poslab {
namespace {

// f32 has kernels; f64, for checks, is written out.
template <class T>
constexpr bool has_kernels = std::is_same_v<T, float>;

const kernels::TransformerKernels& kernel() {
  static const kernels::TransformerKernels& chosen = POSLAB_CHOOSE_ISA(active_isa(), transformer_kernels);
  return chosen;
}

template <class T>
struct Moments {
  T mean, inverse_deviation;
};

template <class T>
Moments<T> moments(const NormParameters<T>& norm, std::int64_t d, const T* x) {
  const T width = static_cast<T>(d);
  T mean = 0;
  if (norm.kind == NormKind::layer_norm) {
    for (std::int64_t c = 0; c < d; ++c) mean += x[c];
    mean /= width;
  }
  T square = 0;
  for (std::int64_t c = 0; c < d; ++c) square += (x[c] - mean) * (x[c] - mean);
  return {mean, 1 / std::sqrt(square / width + static_cast<T>(norm.eps))};
}

// Phi(x), the standard normal's cumulative distribution.
template <class T>
T normal_cdf(T x) {
  return static_cast<T>(0.5) * std::erfc(-x * static_cast<T>(std::numbers::sqrt2 / 2));
}

template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

// gelu_tanh(x) = x sigmoid of this, since (1 + tanh(a)) / 2 = sigmoid(2a).
template <class T>
T gelu_tanh_argument(T x) {
  return static_cast<T>(2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi) *
         (x + static_cast<T>(0.044715) * x * x * x);
}

}  // namespace

template <class T>
void norm_forward(const NormParameters<T>& norm, std::int64_t rows, std::int64_t d, const T* x, T* out) {
  for (std::int64_t r = 0; r < rows; ++r, x += d, out += d) {
    if constexpr (has_kernels<T>) {
      kernel().norm(d, static_cast<float>(norm.eps), x, norm.gain, norm.bias, out);
      continue;
    }
    const Moments<T> m = moments(norm, d, x);
    for (std::int64_t c = 0; c < d; ++c) out[c] = (x[c] - m.mean) * m.inverse_deviation * norm.gain[c];
    if (norm.bias) add_bias<T>(1, d, norm.bias, out);
  }
}

template <class T>
void norm_backward(const NormParameters<T>& norm, std::int64_t rows, std::int64_t d, const T* x, const T* d_out, T* d_x,
                   T* d_gain, T* d_bias) {
  for (std::int64_t r = 0; r < rows; ++r, x += d, d_out += d, d_x += d) {
    if constexpr (has_kernels<T>) {
      kernel().norm_backward(d, static_cast<float>(norm.eps), x, norm.gain, d_out, d_x, d_gain,
                             norm.bias ? d_bias : nullptr);
      continue;
    }
    const Moments<T> m = moments(norm, d, x);
    T sum = 0, product = 0;  // of the gradient of the normalised row, and of that times the row
    for (std::int64_t c = 0; c < d; ++c) {
      const T normalised = (x[c] - m.mean) * m.inverse_deviation;
      const T d_normalised = d_out[c] * norm.gain[c];
      d_gain[c] += d_out[c] * normalised;
      sum += d_normalised;
      product += d_normalised * normalised;
    }
    const T mean = norm.kind == NormKind::layer_norm ? sum / static_cast<T>(d) : 0;
    product /= static_cast<T>(d);
    for (std::int64_t c = 0; c < d; ++c) {
      const T normalised = (x[c] - m.mean) * m.inverse_deviation;
      d_x[c] += m.inverse_deviation * (d_out[c] * norm.gain[c] - mean - normalised * product);
    }
    if (norm.bias) add_column_sums<T>(1, d, d_out, d_bias);
  }
}

template <class T>
void activation_forward(MlpKind kind, std::int64_t rows, std::int64_t d_ff, const T* u, T* out) {
  const bool tanh_form = kind == MlpKind::gelu_tanh || kind == MlpKind::geglu_tanh;
  if constexpr (has_kernels<T>) {
    if (!is_gated(kind)) return (tanh_form ? kernel().gelu_tanh : kernel().gelu)(rows * d_ff, u, out);
    for (std::int64_t r = 0; r < rows; ++r) {
      (tanh_form ? kernel().geglu_tanh : kernel().swiglu)(d_ff, u + 2 * r * d_ff, u + (2 * r + 1) * d_ff,
                                                          out + r * d_ff);
    }
    return;
  }
  const auto activate = [kind](T x) {
    if (kind == MlpKind::gelu) return x * normal_cdf(x);
    return x * sigmoid(kind == MlpKind::swiglu ? x : gelu_tanh_argument(x));
  };
  if (!is_gated(kind)) {
    for (std::int64_t i = 0; i < rows * d_ff; ++i) out[i] = activate(u[i]);
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r, u += 2 * d_ff, out += d_ff) {
    for (std::int64_t c = 0; c < d_ff; ++c) out[c] = activate(u[c]) * u[d_ff + c];
  }
}

template <class T>
void activation_backward(MlpKind kind, std::int64_t rows, std::int64_t d_ff, const T* u, const T* d_out, T* out,
                         T* d_u) {
  if constexpr (has_kernels<T>) {
    if (kind == MlpKind::gelu) return kernel().gelu_backward(rows * d_ff, u, d_out, out, d_u);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t gate = 2 * r * d_ff, up = gate + d_ff;
      kernel().swiglu_backward(d_ff, u + gate, u + up, d_out + r * d_ff, out + r * d_ff, d_u + gate, d_u + up);
    }
    return;
  }
  if (kind == MlpKind::gelu) {
    const T density = static_cast<T>(1 / std::sqrt(2 * std::numbers::pi));
    for (std::int64_t i = 0; i < rows * d_ff; ++i) {
      const T phi = normal_cdf(u[i]);
      out[i] = u[i] * phi;
      d_u[i] = d_out[i] * (phi + u[i] * density * std::exp(static_cast<T>(-0.5) * u[i] * u[i]));
    }
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r, u += 2 * d_ff, d_u += 2 * d_ff, out += d_ff, d_out += d_ff) {
    for (std::int64_t c = 0; c < d_ff; ++c) {
      const T s = sigmoid(u[c]), silu = u[c] * s;
      out[c] = silu * u[d_ff + c];
      d_u[c] = d_out[c] * u[d_ff + c] * (s + silu * (1 - s));
      d_u[d_ff + c] = d_out[c] * silu;
    }
  }
}

template <class T>
void add_bias(std::int64_t rows, std::int64_t n, const T* bias, T* x) {
  if constexpr (has_kernels<T>) return kernel().add_bias(rows, n, bias, x);
  for (std::int64_t r = 0; r < rows; ++r, x += n) {
    for (std::int64_t c = 0; c < n; ++c) x[c] += bias[c];
  }
}

template <class T>
void add_column_sums(std::int64_t rows, std::int64_t n, const T* x, T* sums) {
  if constexpr (has_kernels<T>) return kernel().add_column_sums(rows, n, x, sums);
  for (std::int64_t r = 0; r < rows; ++r, x += n) {
    for (std::int64_t c = 0; c < n; ++c) sums[c] += x[c];
  }
}

template <class T>
double log_sum_exp(std::int64_t n, T* logits) {
  if constexpr (has_kernels<T>) return static_cast<double>(kernel().log_sum_exp(n, logits, 0));
  const double max = static_cast<double>(*std::max_element(logits, logits + n));
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(logits[i]) - max);
  return max + std::log(sum);
}

template <class T>
double cross_entropy(std::int64_t n, T* logits, std::int64_t target, double scale) {
  if constexpr (has_kernels<T>) {
    const float own = logits[target];
    const double loss = static_cast<double>(kernel().log_sum_exp(n, logits, static_cast<float>(scale)) - own);
    if (scale != 0) logits[target] -= static_cast<float>(scale);
    return loss;
  }
  const double log_sum = log_sum_exp(n, logits);
  const double loss = log_sum - static_cast<double>(logits[target]);
  if (scale == 0) return loss;
  for (std::int64_t i = 0; i < n; ++i) {
    const double weight = std::exp(static_cast<double>(logits[i]) - log_sum);
    logits[i] = static_cast<T>(scale * (i == target ? weight - 1 : weight));
  }
  return loss;
}

#define POSLAB_INSTANTIATE(T)                                                                                      \
  template void norm_forward<T>(const NormParameters<T>&, std::int64_t, std::int64_t, const T*, T*);               \
  template void norm_backward<T>(const NormParameters<T>&, std::int64_t, std::int64_t, const T*, const T*, T*, T*, \
                                 T*);                                                                              \
  template void activation_forward<T>(MlpKind, std::int64_t, std::int64_t, const T*, T*);                          \
  template void activation_backward<T>(MlpKind, std::int64_t, std::int64_t, const T*, const T*, T*, T*);           \
  template void add_bias<T>(std::int64_t, std::int64_t, const T*, T*);                                             \
  template void add_column_sums<T>(std::int64_t, std::int64_t, const T*, T*);                                      \
  template double log_sum_exp<T>(std::int64_t, T*);                                                                \
  template double cross_entropy<T>(std::int64_t, T*, std::int64_t, double);
POSLAB_INSTANTIATE(float)
POSLAB_INSTANTIATE(double)
#undef POSLAB_INSTANTIATE

}  // namespace poslab
