#include "poslab/kernels/attention_tile.kernel.h"

#include "poslab/kernels/exp2.simd.h"
#include "poslab/kernels/panel.simd.h"
#include "poslab/kernels/simd.h"

namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE {
namespace {

template <class T>
constexpr T exp2_least = static_cast<T>(sizeof(T) == 4 ? Exp2F32::least : Exp2F64::least);
template <class T>
constexpr std::int64_t width = panel_width<T>;
constexpr std::int64_t block_rows = panel_rows;

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
      multiply_panel(p.queries + row, 1, attention_rows, p.keys + key * p.head_dim, p.head_dim, sums);
#pragma GCC unroll 12
      for (std::int64_t r = 0; r < block_rows; ++r) {
        T* to = p.scores + (row + r) * attention_tile_keys<T> + key;
        store(to, sums[r][0]);
        store(to + lanes<T>, sums[r][1]);
      }
    }
  }
}

// Whether all of these scores are so far below the largest that their weights are 0; a NaN is not.
template <class T>
POSLAB_INLINE bool all_below(typename VectorOf<T>::V a, typename VectorOf<T>::V b, typename VectorOf<T>::V least) {
#if POSLAB_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4) {
    return (_mm512_cmp_ps_mask(a, least, _CMP_NLT_UQ) | _mm512_cmp_ps_mask(b, least, _CMP_NLT_UQ)) == 0;
  } else {
    return (_mm512_cmp_pd_mask(a, least, _CMP_NLT_UQ) | _mm512_cmp_pd_mask(b, least, _CMP_NLT_UQ)) == 0;
  }
#elif POSLAB_VECTOR_BYTES == 32
  const auto below = (a < least) & (b < least);
  return _mm256_movemask_epi8(bits_as<__m256i>(below)) == -1;
#elif defined(__SSE2__)
  const auto below = (a < least) & (b < least);
  return _mm_movemask_epi8(bits_as<__m128i>(below)) == 0xffff;
#else
  const auto below = (a < least) & (b < least);
  for (std::int64_t i = 0; i < lanes<T>; ++i) {
    if (!below[i]) return false;
  }
  return true;
#endif
}

// Keys first .. last - 1 whose weights are not all 0.
struct Run {
  std::int64_t first, last;
};

// Turns the scores of one row into weights relative to the largest score so far; returns the factor by which
// the earlier sums are multiplied. `active` receives a bit for each group of `width` keys that has a weight above 0.
template <class T>
T weigh_row(const AttentionPanel<T>& p, std::int64_t row, Run keys, std::uint32_t& active) {
  using V = typename VectorOf<T>::V;
  static_assert(attention_tile_keys<T> / width<T> <= 32);
  T* scores = p.scores + row * attention_tile_keys<T>;
  const std::int64_t begin = p.begin[row] < keys.last ? p.begin[row] : keys.last;
  const std::int64_t end = p.end[row] > keys.first ? p.end[row] : keys.first;
  const T hidden = -__builtin_inff();
  for (std::int64_t key = keys.first; key < begin; ++key) scores[key] = hidden;
  for (std::int64_t key = end; key < keys.last; ++key) scores[key] = hidden;

  V max = splat(p.row_max[row]);
  if (p.bias) {
    const T* bias = p.bias[row];
    for (std::int64_t key = keys.first; key < keys.last; key += lanes<T>) {
      const V score = load<V>(scores + key) + load<V>(bias + key);
      store(scores + key, score);
      max = score > max ? score : max;
    }
  } else {
    for (std::int64_t key = keys.first; key < keys.last; key += lanes<T>) {
      const V score = load<V>(scores + key);
      max = score > max ? score : max;
    }
  }
  const V unit = splat(largest<T>(max));
  const V least = unit + exp2_least<T>;
  const V worth = exp2_nonpositive(splat(p.row_max[row]) - unit);
  V sum = load<V>(p.row_sum + row * lanes<T>) * worth;
  active = 0;
  for (std::int64_t key = keys.first; key < keys.last; key += width<T>) {
    const V a = load<V>(scores + key);
    const V b = load<V>(scores + key + lanes<T>);
    if (all_below<T>(a, b, least)) {
      store(scores + key, V{});
      store(scores + key + lanes<T>, V{});
      continue;
    }
    active |= 1U << (key / width<T>);
    const V weight_a = exp2_nonpositive(a - unit);
    const V weight_b = exp2_nonpositive(b - unit);
    store(scores + key, weight_a);
    store(scores + key + lanes<T>, weight_b);
    sum = sum + weight_a + weight_b;
  }
  store(p.row_sum + row * lanes<T>, sum);
  p.row_max[row] = unit[0];
  return worth[0];
}

// The next keys from `first` on that `active` marks, side by side; empty at the end.
template <class T>
Run next_run(std::uint32_t active, std::int64_t first, std::int64_t last) {
  const auto marked = [&](std::int64_t key) { return (active >> (key / width<T>)&1U) != 0; };
  while (first < last && !marked(first)) first += width<T>;
  std::int64_t end = first;
  while (end < last && marked(end)) end += width<T>;
  return {first, end};
}

template <class T>
void add_values(const AttentionPanel<T>& p, Run keys, std::uint32_t active, const T* worth) {
  using V = typename VectorOf<T>::V;
  for (std::int64_t block = 0; block < p.n_blocks; ++block) {
    const T* values = p.values + block * attention_tile_keys<T> * width<T>;
    for (std::int64_t row = 0; row < attention_rows; row += block_rows) {
      T* to = p.sums + (block * attention_rows + row) * width<T>;
      const T* weights = p.scores + row * attention_tile_keys<T>;
      V sums[block_rows][2];
#pragma GCC unroll 12
      for (std::int64_t r = 0; r < block_rows; ++r) {
        sums[r][0] = load<V>(to + r * width<T>) * splat(worth[row + r]);
        sums[r][1] = load<V>(to + r * width<T> + lanes<T>) * splat(worth[row + r]);
      }
      for (Run run = next_run<T>(active, keys.first, keys.last); run.first < run.last;
           run = next_run<T>(active, run.last, keys.last)) {
        multiply_panel(weights + run.first, attention_tile_keys<T>, 1, values + run.first * width<T>, run.last - run.first,
                                            sums);
      }
#pragma GCC unroll 12
      for (std::int64_t r = 0; r < block_rows; ++r) {
        store(to + r * width<T>, sums[r][0]);
        store(to + r * width<T> + lanes<T>, sums[r][1]);
      }
    }
  }
}

// The same key by key, for panels with few weights above 0: a softmax that has all but decided. The sums are added up
// in the same order and have the same bits.
template <class T>
void add_few_values(const AttentionPanel<T>& p, const std::uint32_t* active, const T* worth) {
  using V = typename VectorOf<T>::V;
  for (std::int64_t row = 0; row < attention_rows; ++row) {
    if (active[row] == 0) continue;
    T* to = p.sums + row * width<T>;
    for (std::int64_t block = 0; block < p.n_blocks; ++block) {
      T* sums = to + block * attention_rows * width<T>;
      store(sums, load<V>(sums) * splat(worth[row]));
      store(sums + lanes<T>, load<V>(sums + lanes<T>) * splat(worth[row]));
    }
    const T* weights = p.scores + row * attention_tile_keys<T>;
    for (std::uint32_t groups = active[row]; groups != 0; groups &= groups - 1) {
      const std::int64_t first = __builtin_ctz(groups) * width<T>;
      for (std::int64_t key = first; key < first + width<T>; ++key) {
        if (weights[key] == 0) continue;
        const V weight = splat(weights[key]);
        for (std::int64_t block = 0; block < p.n_blocks; ++block) {
          T* sums = to + block * attention_rows * width<T>;
          const T* value = p.values + (block * attention_tile_keys<T> + key) * width<T>;
          store(sums, multiply_add(weight, load<V>(value), load<V>(sums)));
          store(sums + lanes<T>, multiply_add(weight, load<V>(value + lanes<T>), load<V>(sums + lanes<T>)));
        }
      }
    }
  }
}

template <class T>
void attend(const AttentionPanel<T>& p) {
  const Run keys = {p.first / width<T> * width<T>, (p.last + width<T> - 1) / width<T> * width<T>};
  score_panel(p, keys.first, keys.last);
  T worth[attention_rows];
  std::uint32_t active[attention_rows];
  std::uint32_t any = 0;
  int pairs = 0;
  for (std::int64_t row = 0; row < attention_rows; ++row) {
    worth[row] = weigh_row(p, row, keys, active[row]);
    any |= active[row];
    pairs += __builtin_popcount(active[row]);
  }
  // Without a weight above 0 no score was the largest either: the sums stay as they are. Key by key costs about three
  // times as much for a weight as the panel at once.
  if (any == 0) return;
  if (3 * pairs < __builtin_popcount(any) * static_cast<int>(attention_rows)) {
    add_few_values(p, active, worth);
  } else {
    add_values(p, keys, any, worth);
  }
}

}  // namespace

extern const AttentionKernels attention_kernels = {{width<float>, exp2_least<float>, attend<float>},
                                                   {width<double>, exp2_least<double>, attend<double>}};

}  // namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE
