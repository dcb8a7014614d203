#include "poslab/kernels/transformer.kernel.h"

#include "poslab/kernels/exp2.simd.h"
#include "poslab/kernels/simd.h"

namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE {
namespace {

constexpr auto lanes = static_cast<std::int64_t>(f32_lanes);
constexpr float log2_e = 0x1.715476p+0f;

// The `count` values from `from` on, fewer than a vector has, and zeros behind them.
POSLAB_INLINE F32 load_some(const float* from, std::int64_t count) {
  float values[f32_lanes] = {};
  for (std::int64_t i = 0; i < count; ++i) values[i] = from[i];
  return load<F32>(values);
}
POSLAB_INLINE void store_some(float* to, F32 v, std::int64_t count) {
  float values[f32_lanes];
  store(values, v);
  for (std::int64_t i = 0; i < count; ++i) to[i] = values[i];
}

// visit(place, load, store) for each vector of n values; the last one may be short.
template <class Visit>
POSLAB_INLINE void for_each_vector(std::int64_t n, const Visit& visit) {
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    visit(
        [i](const float* x) __attribute__((always_inline)) { return load<F32>(x + i); },
        [i](float* x, F32 v) __attribute__((always_inline)) { store(x + i, v); });
  }
  if (i == n) return;
  visit(
      [ i, n ](const float* x) __attribute__((always_inline)) { return load_some(x + i, n - i); },
      [ i, n ](float* x, F32 v) __attribute__((always_inline)) { store_some(x + i, v, n - i); });
}

POSLAB_INLINE float total(F32 v) {
  float sum = 0;
  for (std::int64_t i = 0; i < lanes; ++i) sum += v[i];
  return sum;
}

POSLAB_INLINE F32 exp_nonpositive(F32 x) { return exp2_nonpositive(x * log2_e); }
POSLAB_INLINE F32 magnitude(F32 x) { return bits_as<F32>(bits_as<U32>(x) & 0x7fffffffU); }

// Phi(x), the standard normal's cumulative distribution, and its density without 1 / sqrt(2 pi): e = exp(-x^2 / 2).
// The tail Phi(-|x|) is e t P(t), t = 1 / (1 + 0.3 |x| / sqrt(2)): a least-squares fit of erfcx(z) / (2 t) over
// 0 <= z <= 10, weighted for a relative error of at most 2e-8.
POSLAB_INLINE F32 normal_cdf(F32 x, F32& e) {
  e = exp2_nonpositive(x * x * (-0.5f * log2_e));
  const F32 t = 1.0f / (magnitude(x) * (0.3f * 0x1.6a09e6p-1f) + 1.0f);
  F32 p = splat(-0x1.0943b0p-4f);
  p = multiply_add(p, t, splat(0x1.f13876p-3f));
  p = multiply_add(p, t, splat(-0x1.064a5ep-2f));
  p = multiply_add(p, t, splat(0x1.1870060p-2f));
  p = multiply_add(p, t, splat(-0x1.83b7dep-5f));
  p = multiply_add(p, t, splat(0x1.b82cd4p-4f));
  p = multiply_add(p, t, splat(0x1.2fcbfep-4f));
  p = multiply_add(p, t, splat(0x1.5da004p-4f));
  p = multiply_add(p, t, splat(0x1.5a7f3cp-4f));
  const F32 tail = e * t * p;
  return x > 0 ? 1.0f - tail : tail;
}

POSLAB_INLINE F32 sigmoid(F32 x) {
  const F32 e = exp_nonpositive(-magnitude(x));
  const F32 one = splat(1.0f);
  return (x > 0 ? one : e) / (1.0f + e);
}

void gelu(std::int64_t n, const float* u, float* out) {
  for_each_vector(
      n, [&](const auto& get, const auto& put) __attribute__((always_inline)) {
        const F32 x = get(u);
        F32 e;
        put(out, x * normal_cdf(x, e));
      });
}

void gelu_backward(std::int64_t n, const float* u, const float* d_out, float* out, float* d_u) {
  for_each_vector(
      n, [&](const auto& get, const auto& put) __attribute__((always_inline)) {
        const F32 x = get(u);
        F32 e;
        const F32 phi = normal_cdf(x, e);
        put(out, x * phi);
        put(d_u, get(d_out) * multiply_add(x * 0x1.988454p-2f, e, phi));
      });
}

void swiglu(std::int64_t n, const float* gate, const float* up, float* out) {
  for_each_vector(
      n, [&](const auto& get, const auto& put) __attribute__((always_inline)) {
        const F32 g = get(gate);
        put(out, g * sigmoid(g) * get(up));
      });
}

void swiglu_backward(std::int64_t n, const float* gate, const float* up, const float* d_out, float* out, float* d_gate,
                     float* d_up) {
  for_each_vector(
      n, [&](const auto& get, const auto& put) __attribute__((always_inline)) {
        const F32 g = get(gate), v = get(up), d = get(d_out);
        const F32 s = sigmoid(g);
        const F32 silu = g * s;
        put(out, silu * v);
        put(d_gate, d * v * (s + silu * (1.0f - s)));
        put(d_up, d * silu);
      });
}

// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2; (1 + tanh(a)) / 2 = sigmoid(2a).
POSLAB_INLINE F32 gelu_tanh_of(F32 x) {
  return x * sigmoid(x * multiply_add(x * x, splat(0.044715f), splat(1.0f)) * 0x1.988454p+0f);
}

void gelu_tanh(std::int64_t n, const float* u, float* out) {
  for_each_vector(
      n, [&](const auto& get, const auto& put) __attribute__((always_inline)) { put(out, gelu_tanh_of(get(u))); });
}

void geglu_tanh(std::int64_t n, const float* gate, const float* up, float* out) {
  for_each_vector(
      n, [&](const auto& get, const auto& put)
             __attribute__((always_inline)) { put(out, gelu_tanh_of(get(gate)) * get(up)); });
}

struct Moments {
  float mean, inverse_deviation;
};

POSLAB_INLINE Moments moments(std::int64_t d, float eps, const float* x, bool centred) {
  const float width = static_cast<float>(d);
  float mean = 0;
  if (centred) {
    F32 sum = {};
    for_each_vector(
        d, [&](const auto& get, const auto&) __attribute__((always_inline)) { sum = sum + get(x); });
    mean = total(sum) / width;
  }
  F32 squares = {};
  std::int64_t i = 0;
  for (; i + lanes <= d; i += lanes) {
    const F32 centred_x = load<F32>(x + i) - mean;
    squares = multiply_add(centred_x, centred_x, squares);
  }
  float square = total(squares);
  for (; i < d; ++i) square += (x[i] - mean) * (x[i] - mean);
  return {mean, 1.0f / __builtin_sqrtf(square / width + eps)};
}

void norm(std::int64_t d, float eps, const float* x, const float* gain, const float* bias, float* out) {
  const Moments m = moments(d, eps, x, bias != nullptr);
  for_each_vector(
      d, [&](const auto& get, const auto& put) __attribute__((always_inline)) {
        const F32 scaled = (get(x) - m.mean) * m.inverse_deviation * get(gain);
        put(out, bias ? scaled + get(bias) : scaled);
      });
}

void norm_backward(std::int64_t d, float eps, const float* x, const float* gain, const float* d_out, float* d_x,
                   float* d_gain, float* d_bias) {
  const Moments m = moments(d, eps, x, d_bias != nullptr);
  F32 sums = {}, products = {};
  for_each_vector(
      d, [&](const auto& get, const auto& put) __attribute__((always_inline)) {
        const F32 normalised = (get(x) - m.mean) * m.inverse_deviation;
        const F32 d_row = get(d_out);
        const F32 d_normalised = d_row * get(gain);  // 0 beyond the last channel
        put(d_gain, get(d_gain) + d_row * normalised);
        if (d_bias) put(d_bias, get(d_bias) + d_row);
        sums = sums + d_normalised;
        products = products + d_normalised * normalised;
      });
  const float width = static_cast<float>(d);
  const float mean = d_bias ? total(sums) / width : 0;
  const float product = total(products) / width;
  for_each_vector(
      d, [&](const auto& get, const auto& put) __attribute__((always_inline)) {
        const F32 normalised = (get(x) - m.mean) * m.inverse_deviation;
        put(d_x, get(d_x) + (get(d_out) * get(gain) - mean - normalised * product) * m.inverse_deviation);
      });
}

float log_sum_exp(std::int64_t n, float* logits, float scale) {
  std::int64_t i = 0;
  F32 highest = splat(logits[0]);
  for (; i + lanes <= n; i += lanes) {
    const F32 v = load<F32>(logits + i);
    highest = v > highest ? v : highest;
  }
  float max = highest[0];
  for (std::int64_t k = 1; k < lanes; ++k) max = highest[k] > max ? highest[k] : max;
  for (; i < n; ++i) max = logits[i] > max ? logits[i] : max;
  F32 sums = {};
  i = 0;
  for (; i + lanes <= n; i += lanes) {
    const F32 weight = exp_nonpositive(load<F32>(logits + i) - max);
    if (scale != 0) store(logits + i, weight);
    sums = sums + weight;
  }
  float sum = total(sums);
  if (i < n) {
    const F32 weight = exp_nonpositive(load_some(logits + i, n - i) - max);
    for (std::int64_t k = 0; k < n - i; ++k) sum += weight[k];
    if (scale != 0) store_some(logits + i, weight, n - i);
  }
  if (scale != 0) {
    const float factor = scale / sum;
    for (std::int64_t k = 0; k < n; ++k) logits[k] *= factor;
  }
  return max + __builtin_logf(sum);
}

void add_bias(std::int64_t rows, std::int64_t n, const float* bias, float* x) {
  for (std::int64_t r = 0; r < rows; ++r, x += n) {
    for_each_vector(
        n, [&](const auto& get, const auto& put) __attribute__((always_inline)) { put(x, get(x) + get(bias)); });
  }
}

void add_column_sums(std::int64_t rows, std::int64_t n, const float* x, float* sums) {
  for_each_vector(
      n, [&](const auto& get, const auto& put) __attribute__((always_inline)) {
        F32 sum = get(sums);
        for (std::int64_t r = 0; r < rows; ++r) sum = sum + get(x + r * n);
        put(sums, sum);
      });
}

}  // namespace

extern const TransformerKernels transformer_kernels = {gelu,        gelu_backward, swiglu,         swiglu_backward,
                                                       gelu_tanh,   geglu_tanh,    norm,           norm_backward,
                                                       log_sum_exp, add_bias,      add_column_sums};

}  // namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE
