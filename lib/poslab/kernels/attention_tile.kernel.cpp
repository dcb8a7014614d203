#include "poslab/kernels/attention_tile.kernel.h"

#include "poslab/kernels/exp2.simd.h"
#include "poslab/kernels/simd.h"

namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE {
namespace {

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  using V = F32;
};
template <>
struct VectorOf<double> {
  using V = F64;
};
template <class T>
constexpr std::int64_t lanes = POSLAB_VECTOR_BYTES / sizeof(T);
template <class T>
constexpr std::int64_t width = 2 * lanes<T>;

// Rows whose sums stay in registers: 2 vectors each, of 32 registers or 16.
constexpr std::int64_t block_rows = POSLAB_VECTOR_BYTES == 64 ? 12 : 6;

// sums[r] += sum over s < steps of a[r * row_stride + s * step_stride] * b[s, width], added up in order of s.
template <std::int64_t row_stride, std::int64_t step_stride, class T, class V>
POSLAB_INLINE void multiply(const T* a, const T* b, std::int64_t steps, V (&sums)[block_rows][2]) {
  for (std::int64_t s = 0; s < steps; ++s) {
    const V b0 = load<V>(b + s * width<T>);
    const V b1 = load<V>(b + s * width<T> + lanes<T>);
#pragma GCC unroll 12
    for (std::int64_t r = 0; r < block_rows; ++r) {
      const V x = splat(a[r * row_stride + s * step_stride]);
      sums[r][0] = multiply_add(x, b0, sums[r][0]);
      sums[r][1] = multiply_add(x, b1, sums[r][1]);
    }
  }
}

template <class T>
POSLAB_INLINE T largest(typename VectorOf<T>::V v) {
  T all[lanes<T>];
  store(all, v);
  T max = all[0];
  for (std::int64_t i = 1; i < lanes<T>; ++i) max = all[i] > max ? all[i] : max;
  return max;
}

template <class T>
void score_panel(const AttentionPanel<T>& p, std::int64_t first, std::int64_t last) {
  using V = typename VectorOf<T>::V;
  for (std::int64_t key = first; key < last; key += width<T>) {
    for (std::int64_t row = 0; row < attention_rows; row += block_rows) {
      V sums[block_rows][2] = {};
      multiply<1, attention_rows>(p.queries + row, p.keys + key * p.head_dim, p.head_dim, sums);
#pragma GCC unroll 12
      for (std::int64_t r = 0; r < block_rows; ++r) {
        T* to = p.scores + (row + r) * attention_tile_keys<T> + key;
        store(to, sums[r][0]);
        store(to + lanes<T>, sums[r][1]);
      }
    }
  }
}

// Turns the scores of one row into weights relative to the largest score so far; returns what the earlier sums are
// worth in the new unit.
template <class T>
T weigh_row(const AttentionPanel<T>& p, std::int64_t row, std::int64_t first, std::int64_t last) {
  using V = typename VectorOf<T>::V;
  T* scores = p.scores + row * attention_tile_keys<T>;
  const std::int64_t begin = p.begin[row] > first ? p.begin[row] : first;
  const std::int64_t end = p.end[row] < last ? p.end[row] : last;
  const T hidden = -__builtin_inff();
  for (std::int64_t key = first; key < begin && key < last; ++key) scores[key] = hidden;
  for (std::int64_t key = end > first ? end : first; key < last; ++key) scores[key] = hidden;

  V max = splat(p.row_max[row]);
  if (p.bias) {
    const T* bias = p.bias[row];
    for (std::int64_t key = first; key < last; key += lanes<T>) {
      const V score = load<V>(scores + key) + load<V>(bias + key);
      store(scores + key, score);
      max = score > max ? score : max;
    }
  } else {
    for (std::int64_t key = first; key < last; key += lanes<T>) {
      const V score = load<V>(scores + key);
      max = score > max ? score : max;
    }
  }
  const V unit = splat(largest<T>(max));
  const V worth = exp2_nonpositive(splat(p.row_max[row]) - unit);
  V sum = load<V>(p.row_sum + row * lanes<T>) * worth;
  for (std::int64_t key = first; key < last; key += lanes<T>) {
    const V weight = exp2_nonpositive(load<V>(scores + key) - unit);
    store(scores + key, weight);
    sum = sum + weight;
  }
  store(p.row_sum + row * lanes<T>, sum);
  p.row_max[row] = unit[0];
  return worth[0];
}

template <class T>
void add_values(const AttentionPanel<T>& p, std::int64_t first, std::int64_t last, const T* worth) {
  using V = typename VectorOf<T>::V;
  for (std::int64_t block = 0; block < p.n_blocks; ++block) {
    const T* values = p.values + (block * attention_tile_keys<T> + first) * width<T>;
    for (std::int64_t row = 0; row < attention_rows; row += block_rows) {
      T* to = p.sums + (block * attention_rows + row) * width<T>;
      V sums[block_rows][2];
#pragma GCC unroll 12
      for (std::int64_t r = 0; r < block_rows; ++r) {
        sums[r][0] = load<V>(to + r * width<T>) * splat(worth[row + r]);
        sums[r][1] = load<V>(to + r * width<T> + lanes<T>) * splat(worth[row + r]);
      }
      multiply<attention_tile_keys<T>, 1>(p.scores + row * attention_tile_keys<T> + first, values, last - first, sums);
#pragma GCC unroll 12
      for (std::int64_t r = 0; r < block_rows; ++r) {
        store(to + r * width<T>, sums[r][0]);
        store(to + r * width<T> + lanes<T>, sums[r][1]);
      }
    }
  }
}

template <class T>
void attend(const AttentionPanel<T>& p) {
  const std::int64_t first = p.first / width<T> * width<T>;
  const std::int64_t last = (p.last + width<T> - 1) / width<T> * width<T>;
  score_panel(p, first, last);
  T worth[attention_rows];
  for (std::int64_t row = 0; row < attention_rows; ++row) worth[row] = weigh_row(p, row, first, last);
  add_values(p, first, last, worth);
}

}  // namespace

extern const AttentionKernels attention_kernels = {{width<float>, attend<float>}, {width<double>, attend<double>}};

}  // namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE
