#include "poslab/attention/attention_gradient.h"

#include <algorithm>
#include <cmath>

#include "poslab/core/aligned.h"
#include "poslab/core/blas.h"
#include "poslab/core/threads.h"

namespace poslab {
namespace {

constexpr std::int64_t tile_rows = 64;

// Queries first .. first + rows - 1 of one head against the keys that any of them sees.
struct Tile {
  std::int64_t first, rows, first_key, n_keys;

  std::int64_t begin(std::int64_t row, std::int64_t window) const {
    return window == 0 ? 0 : std::max<std::int64_t>(first + row - window + 1, 0);
  }
};

template <class Run>
void for_each_tile(std::int64_t seq_len, std::int64_t window, const Run& run) {
  for (std::int64_t first = 0; first < seq_len; first += tile_rows) {
    Tile tile{first, std::min(tile_rows, seq_len - first), 0, 0};
    tile.first_key = tile.begin(0, window);
    tile.n_keys = first + tile.rows - tile.first_key;
    run(tile);
  }
}

// One head of one batch entry.
template <class T>
class Head {
 public:
  Head(const AttentionBatch<T>& a, std::int64_t entry, std::int64_t head)
      : a_(a),
        head_(head),
        width_((a.n_heads + 2 * a.n_kv_heads) * a.head_dim),
        out_width_(a.n_heads * a.head_dim),
        scale_(static_cast<T>(1 / std::sqrt(static_cast<double>(a.head_dim)))) {
    const std::int64_t kv = head / (a.n_heads / a.n_kv_heads);
    q_at_ = entry * a.seq_len * width_ + head * a.head_dim;
    k_at_ = entry * a.seq_len * width_ + (a.n_heads + kv) * a.head_dim;
    v_at_ = k_at_ + a.n_kv_heads * a.head_dim;
    out_at_ = entry * a.seq_len * out_width_ + head * a.head_dim;
    lse_at_ = (entry * a.n_heads + head) * a.seq_len;
  }

  // scores [rows, n_keys] with bias, in nats; what is hidden is left as it comes.
  void score(const Tile& t, T* scores) const {
    gemm<T>(Transpose::no, Transpose::yes, t.rows, t.n_keys, a_.head_dim, scale_, a_.qkv + q_at_ + t.first * width_,
            width_, a_.qkv + k_at_ + t.first_key * width_, width_, 0, scores, t.n_keys);
    if (!a_.bias) return;
    for (std::int64_t r = 0; r < t.rows; ++r) {
      const std::int64_t begin = t.begin(r, a_.window);
      a_.bias->add(head_, t.first + r, begin, t.first + r + 1 - begin, scores + r * t.n_keys + begin - t.first_key);
    }
  }

  void forward(const Tile& t, T* scores, T* out, T* lse) const {
    score(t, scores);
    for (std::int64_t r = 0; r < t.rows; ++r) {
      T* row = scores + r * t.n_keys;
      const std::int64_t begin = t.begin(r, a_.window) - t.first_key, end = t.first + r + 1 - t.first_key;
      const T max = *std::max_element(row + begin, row + end);
      T sum = 0;
      std::fill(row, row + begin, T{0});
      for (std::int64_t j = begin; j < end; ++j) sum += row[j] = std::exp(row[j] - max);
      std::fill(row + end, row + t.n_keys, T{0});
      for (std::int64_t j = begin; j < end; ++j) row[j] /= sum;
      lse[lse_at_ + t.first + r] = max + std::log(sum);
    }
    gemm<T>(Transpose::no, Transpose::no, t.rows, a_.head_dim, t.n_keys, 1, scores, t.n_keys,
            a_.qkv + v_at_ + t.first_key * width_, width_, 0, out + out_at_ + t.first * out_width_, out_width_);
  }

  // weights and d_weights are scratch [rows, n_keys].
  void backward(const Tile& t, T* weights, T* d_weights, const T* out, const T* lse, const T* d_out, T* d_qkv,
                double* sums) const {
    score(t, weights);
    const T* d_rows = d_out + out_at_ + t.first * out_width_;
    const T* keys = a_.qkv + k_at_ + t.first_key * width_;
    gemm<T>(Transpose::no, Transpose::yes, t.rows, t.n_keys, a_.head_dim, 1, d_rows, out_width_,
            a_.qkv + v_at_ + t.first_key * width_, width_, 0, d_weights, t.n_keys);
    for (std::int64_t r = 0; r < t.rows; ++r) {
      T* w = weights + r * t.n_keys;
      T* d = d_weights + r * t.n_keys;
      const std::int64_t begin = t.begin(r, a_.window) - t.first_key, end = t.first + r + 1 - t.first_key;
      const T* o = out + out_at_ + (t.first + r) * out_width_;
      T mean = 0;  // of d_weights under the weights
      for (std::int64_t c = 0; c < a_.head_dim; ++c) mean += o[c] * d_rows[r * out_width_ + c];
      const T log_sum = lse[lse_at_ + t.first + r];
      for (std::int64_t j = begin; j < end; ++j) {
        w[j] = std::exp(w[j] - log_sum);
        d[j] = w[j] * (d[j] - mean);
      }
      for (T* row : {w, d}) {
        std::fill(row, row + begin, T{0});
        std::fill(row + end, row + t.n_keys, T{0});
      }
      if (sums) a_.bias->add_gradient(head_, t.first + r, begin + t.first_key, end - begin, d + begin, sums);
    }
    gemm<T>(Transpose::no, Transpose::no, t.rows, a_.head_dim, t.n_keys, scale_, d_weights, t.n_keys, keys, width_, 0,
            d_qkv + q_at_ + t.first * width_, width_);
    gemm<T>(Transpose::yes, Transpose::no, t.n_keys, a_.head_dim, t.rows, scale_, d_weights, t.n_keys,
            a_.qkv + q_at_ + t.first * width_, width_, 1, d_qkv + k_at_ + t.first_key * width_, width_);
    gemm<T>(Transpose::yes, Transpose::no, t.n_keys, a_.head_dim, t.rows, 1, weights, t.n_keys, d_rows, out_width_, 1,
            d_qkv + v_at_ + t.first_key * width_, width_);
  }

  void clear_key_gradients(T* d_qkv) const {
    for (std::int64_t j = 0; j < a_.seq_len; ++j) {
      std::fill_n(d_qkv + k_at_ + j * width_, a_.head_dim, T{0});
      std::fill_n(d_qkv + v_at_ + j * width_, a_.head_dim, T{0});
    }
  }

 private:
  const AttentionBatch<T>& a_;
  const std::int64_t head_, width_, out_width_;
  const T scale_;
  std::int64_t q_at_, k_at_, v_at_, out_at_, lse_at_;
};

std::int64_t most_keys(std::int64_t seq_len, std::int64_t window) {
  return window == 0 ? seq_len : std::min(seq_len, window + tile_rows);
}

}  // namespace

template <class T>
void attention_forward(const AttentionBatch<T>& a, T* out, T* lse, int threads) {
  parallel_for(a.batch * a.n_kv_heads, threads, [&](std::int64_t task) {
    const std::int64_t entry = task / a.n_kv_heads, kv = task % a.n_kv_heads, group = a.n_heads / a.n_kv_heads;
    AlignedBuffer<T> scores(static_cast<std::size_t>(tile_rows * most_keys(a.seq_len, a.window)));
    for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head) {
      const Head<T> one(a, entry, head);
      for_each_tile(a.seq_len, a.window, [&](const Tile& tile) { one.forward(tile, scores.data(), out, lse); });
    }
  });
}

template <class T>
void attention_backward(const AttentionBatch<T>& a, const T* out, const T* lse, const T* d_out, T* d_qkv,
                        double* bias_sums, int threads) {
  const std::int64_t sums_size = a.bias ? a.bias->sums_size() : 0;
  parallel_for(a.batch * a.n_kv_heads, threads, [&](std::int64_t task) {
    const std::int64_t entry = task / a.n_kv_heads, kv = task % a.n_kv_heads, group = a.n_heads / a.n_kv_heads;
    const auto size = static_cast<std::size_t>(tile_rows * most_keys(a.seq_len, a.window));
    AlignedBuffer<T> weights(size), d_weights(size);
    for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head) {
      const Head<T> one(a, entry, head);
      if (head == kv * group) one.clear_key_gradients(d_qkv);
      double* sums = sums_size > 0 ? bias_sums + (entry * a.n_heads + head) * sums_size : nullptr;
      for_each_tile(a.seq_len, a.window, [&](const Tile& tile) {
        one.backward(tile, weights.data(), d_weights.data(), out, lse, d_out, d_qkv, sums);
      });
    }
  });
}

#define POSLAB_INSTANTIATE(T)                                                \
  template void attention_forward<T>(const AttentionBatch<T>&, T*, T*, int); \
  template void attention_backward<T>(const AttentionBatch<T>&, const T*, const T*, const T*, T*, double*, int);
POSLAB_INSTANTIATE(float)
POSLAB_INSTANTIATE(double)
#undef POSLAB_INSTANTIATE

}  // namespace poslab
