#include "poslab/kernels/attention_gradient.kernel.h"

#include "poslab/kernels/exp2.simd.h"
#include "poslab/kernels/panel.simd.h"
#include "poslab/kernels/simd.h"

namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE {
namespace {

template <class T>
constexpr std::int64_t width = panel_width<T>;
constexpr std::int64_t block_rows = panel_rows;
template <class T>
constexpr T log2_e = static_cast<T>(0x1.71547652b82fep+0);

template <class T>
void products(std::int64_t depth, std::int64_t n, const T* a, const T* b, T* out, std::int64_t stride) {
  using V = typename VectorOf<T>::V;
  for (std::int64_t j = 0; j < n; j += width<T>) {
    for (std::int64_t row = 0; row < gradient_rows; row += block_rows) {
      V sums[block_rows][2] = {};
      multiply_panel(a + row, 1, gradient_rows, b + j * depth, depth, sums);
#pragma GCC unroll 12
      for (std::int64_t r = 0; r < block_rows; ++r) {
        store(out + (row + r) * stride + j, sums[r][0]);
        store(out + (row + r) * stride + j + lanes<T>, sums[r][1]);
      }
    }
  }
}

template <class T>
POSLAB_INLINE void add(std::int64_t steps, std::int64_t blocks, const T* a, std::int64_t row_stride,
                       std::int64_t step_stride, const T* b, std::int64_t b_stride, T* all, std::int64_t sums_stride) {
  using V = typename VectorOf<T>::V;
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (std::int64_t row = 0; row < gradient_rows; row += block_rows) {
      T* to = all + block * sums_stride + row * width<T>;
      V sums[block_rows][2];
#pragma GCC unroll 12
      for (std::int64_t r = 0; r < block_rows; ++r) {
        sums[r][0] = load<V>(to + r * width<T>);
        sums[r][1] = load<V>(to + r * width<T> + lanes<T>);
      }
      multiply_panel(a + row * row_stride, row_stride, step_stride, b + block * b_stride, steps, sums);
#pragma GCC unroll 12
      for (std::int64_t r = 0; r < block_rows; ++r) {
        store(to + r * width<T>, sums[r][0]);
        store(to + r * width<T> + lanes<T>, sums[r][1]);
      }
    }
  }
}

template <class T>
void add_by_row(std::int64_t steps, std::int64_t blocks, const T* a, std::int64_t stride, const T* b,
                std::int64_t b_stride, T* sums, std::int64_t sums_stride) {
  add(steps, blocks, a, stride, 1, b, b_stride, sums, sums_stride);
}

template <class T>
void add_by_column(std::int64_t steps, std::int64_t blocks, const T* a, std::int64_t stride, const T* b,
                   std::int64_t b_stride, T* sums, std::int64_t sums_stride) {
  add(steps, blocks, a, 1, stride, b, b_stride, sums, sums_stride);
}

// Hidden scores become so small that their weights are 0.
template <class T>
POSLAB_INLINE void hide(std::int64_t n, std::int64_t begin, std::int64_t end, T* row) {
  const T hidden = -__builtin_inff();
  for (std::int64_t j = 0; j < begin; ++j) row[j] = hidden;
  for (std::int64_t j = end; j < n; ++j) row[j] = hidden;
}

template <class T>
typename AttentionGradientKernel<T>::Softmax softmax(std::int64_t n, std::int64_t begin, std::int64_t end, T* scores) {
  using V = typename VectorOf<T>::V;
  hide(n, begin, end, scores);
  V most = load<V>(scores);
  for (std::int64_t j = lanes<T>; j < n; j += lanes<T>) {
    const V score = load<V>(scores + j);
    most = score > most ? score : most;
  }
  T max = most[0];
  for (std::int64_t i = 1; i < lanes<T>; ++i) max = most[i] > max ? most[i] : max;
  V sums = {};
  for (std::int64_t j = 0; j < n; j += lanes<T>) {
    const V weight = exp2_nonpositive((load<V>(scores + j) - max) * log2_e<T>);
    store(scores + j, weight);
    sums = sums + weight;
  }
  T sum = 0;
  for (std::int64_t i = 0; i < lanes<T>; ++i) sum += sums[i];
  return {max, sum};
}

template <class T>
void softmax_gradient(std::int64_t n, std::int64_t begin, std::int64_t end, T log_sum, T mean, T* scores,
                      T* d_weights) {
  using V = typename VectorOf<T>::V;
  hide(n, begin, end, scores);
  for (std::int64_t j = 0; j < n; j += lanes<T>) {
    const V weight = exp2_nonpositive((load<V>(scores + j) - log_sum) * log2_e<T>);
    store(scores + j, weight);
    store(d_weights + j, weight * (load<V>(d_weights + j) - mean));
  }
}

}  // namespace

extern const AttentionGradientKernels attention_gradient_kernels = {
    {width<float>, products<float>, add_by_row<float>, add_by_column<float>, softmax<float>, softmax_gradient<float>},
    {width<double>, products<double>, add_by_row<double>, add_by_column<double>, softmax<double>,
     softmax_gradient<double>}};

}  // namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE
