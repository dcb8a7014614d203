#include "poslab/attention/attention_gradient.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "poslab/core/aligned.h"
#include "poslab/core/rounding.h"
#include "poslab/core/threads.h"
#include "poslab/kernels/attention_gradient.kernel.h"
#include "poslab/kernels/isa.h"

namespace poslab {
namespace {

using kernels::gradient_rows;

// Queries whose weights stand in memory together.
constexpr std::int64_t panels = 2;
constexpr std::int64_t tile_rows = panels * gradient_rows;
// Of the forward pass: enough that packing the keys for them costs nothing.
constexpr std::int64_t queries_per_task = 42 * gradient_rows;
constexpr std::int64_t enough_tasks = 8;

template <class T>
const kernels::AttentionGradientKernel<T>& kernel_of() {
  const kernels::AttentionGradientKernels& table = POSLAB_CHOOSE_ISA(active_isa(), attention_gradient_kernels);
  if constexpr (std::is_same_v<T, float>) {
    return table.f32;
  } else {
    return table.f64;
  }
}

// One batch entry's key-value head and the queries that read it, with the scratch of one task.
template <class T>
class HeadTask {
 public:
  HeadTask(const AttentionBatch<T>& attention, AttentionScratch<T>& scratch, std::int64_t entry, std::int64_t kv)
      : a_(attention),
        s_(scratch),
        kernel_(kernel_of<T>()),
        entry_(entry),
        kv_(kv),
        depth_(a_.head_dim),
        width_((a_.n_heads + 2 * a_.n_kv_heads) * a_.head_dim),
        out_width_(a_.n_heads * a_.head_dim),
        blocks_(round_up(depth_, kernel_.width) / kernel_.width),
        // Keys are read in whole vectors and their gradients summed in whole panels.
        n_keys_(round_up(round_up(a_.seq_len, kernel_.width) + gradient_rows, kernel_.width)),
        scale_(static_cast<T>(1 / std::sqrt(static_cast<double>(a_.head_dim)))) {}

  // Of the queries begin .. end - 1, begin a multiple of gradient_rows.
  void forward(T* out, T* lse, std::int64_t begin, std::int64_t end) {
    pack_columns(key_at(0), s_.keys);
    pack_rows(value_at(0), width_, a_.seq_len, 1, s_.values, n_keys_);
    reserve(s_.scores, gradient_rows * n_keys_);
    const std::int64_t sums_size = reserve_sums();
    for_each_head([&](std::int64_t head) {
      for (std::int64_t first = begin; first < end; first += gradient_rows) {
        const Keys keys = keys_seen(first, gradient_rows);
        const std::int64_t rows = std::min(gradient_rows, end - first);
        score(head, first, keys, s_.scores.data());
        T total[gradient_rows];
        for (std::int64_t r = 0; r < gradient_rows; ++r) {
          T* row = s_.scores.data() + r * n_keys_;
          const Keys seen = keys_of_row(first + std::min(r, rows - 1), keys);
          const auto softmax = kernel_.softmax(keys.size(), seen.begin, seen.end, row);
          total[r] = softmax.sum;
          if (r < rows) lse[lse_at(head) + first + r] = softmax.max + std::log(softmax.sum);
        }
        std::fill_n(s_.sums.data(), sums_size, T{0});
        kernel_.add_by_row(keys.size(), blocks_, s_.scores.data(), n_keys_,
                           s_.values.data() + keys.begin * kernel_.width, n_keys_ * kernel_.width, s_.sums.data(),
                           gradient_rows * kernel_.width);
        for (std::int64_t r = 0; r < rows; ++r) {
          unpack_row(s_.sums.data() + r * kernel_.width, gradient_rows, 1 / total[r],
                     out + out_at(head) + (first + r) * out_width_);
        }
      }
    });
  }

  void backward(const T* out, const T* lse, const T* d_out, T* d_qkv, double* bias_sums) {
    pack_columns(key_at(0), s_.keys);
    pack_columns(value_at(0), s_.value_columns);
    pack_rows(key_at(0), width_, a_.seq_len, scale_, s_.key_rows, n_keys_);
    reserve(s_.scores, tile_rows * n_keys_);
    reserve(s_.d_scores, tile_rows * n_keys_);
    const std::int64_t block = n_keys_ * kernel_.width;
    for (AlignedBuffer<T>* sums : {&s_.d_keys, &s_.d_values}) {
      reserve(*sums, blocks_ * block);
      std::fill_n(sums->data(), blocks_ * block, T{0});
    }
    reserve(s_.d_out_panel, gradient_rows * depth_);
    const std::int64_t sums_size = reserve_sums();
    for_each_head([&](std::int64_t head) {
      double* head_sums = bias_sums ? bias_sums + (entry_ * a_.n_heads + head) * a_.bias->sums_size() : nullptr;
      for (std::int64_t first = 0; first < a_.seq_len; first += tile_rows) {
        const Keys tile = keys_seen(first, tile_rows);
        const std::int64_t padded = tile.size() + gradient_rows;  // the last panel of keys may reach beyond the tile
        const std::int64_t tile_end = std::min(first + tile_rows, a_.seq_len);
        for (std::int64_t panel = first; panel < first + tile_rows; panel += gradient_rows) {
          T* scores = s_.scores.data() + (panel - first) * n_keys_;
          T* d_scores = s_.d_scores.data() + (panel - first) * n_keys_;
          if (panel >= tile_end) {
            clear_rows(scores, d_scores, padded);
            continue;
          }
          const std::int64_t rows = std::min(gradient_rows, tile_end - panel);
          // The tile's keys, as far as this panel sees any.
          const Keys keys{tile.begin,
                          std::min(tile.end, round_up(panel + rows - tile.begin, kernel_.width) + tile.begin)};
          score(head, panel, keys, scores);
          pack_panel(d_out + out_at(head) + panel * out_width_, out_width_, rows, 1, s_.d_out_panel.data());
          kernel_.products(depth_, keys.size(), s_.d_out_panel.data(), s_.value_columns.data() + keys.begin * depth_,
                           d_scores, n_keys_);
          for (std::int64_t r = 0; r < gradient_rows; ++r) {
            T* row = scores + r * n_keys_;
            T* d_row = d_scores + r * n_keys_;
            std::fill(d_row + keys.size(), d_row + padded, T{0});
            std::fill(row + keys.size(), row + padded, T{0});
            if (r >= rows) {
              std::fill_n(row, keys.size(), T{0});
              std::fill_n(d_row, keys.size(), T{0});
              continue;
            }
            const Keys seen = keys_of_row(panel + r, keys);
            const std::int64_t at = out_at(head) + (panel + r) * out_width_;
            expect(out + at + rows_ahead * out_width_);
            const T mean = dot(out + at, d_out + at);  // of d_weights under the weights
            kernel_.softmax_gradient(keys.size(), seen.begin, seen.end, lse[lse_at(head) + panel + r], mean, row,
                                     d_row);
            if (head_sums) {
              a_.bias->add_gradient(head, panel + r, keys.begin + seen.begin, seen.end - seen.begin, d_row + seen.begin,
                                    head_sums);
            }
          }
          std::fill_n(s_.sums.data(), sums_size, T{0});
          kernel_.add_by_row(keys.size(), blocks_, d_scores, n_keys_, s_.key_rows.data() + keys.begin * kernel_.width,
                             block, s_.sums.data(), gradient_rows * kernel_.width);
          for (std::int64_t r = 0; r < rows; ++r) {
            unpack_row(s_.sums.data() + r * kernel_.width, gradient_rows, 1,
                       d_qkv + query_at(head) + (panel + r) * width_);
          }
        }
        pack_rows(a_.qkv + query_at(head) + first * width_, width_, tile_end - first, scale_, s_.query_rows, tile_rows);
        pack_rows(d_out + out_at(head) + first * out_width_, out_width_, tile_end - first, 1, s_.d_out_rows, tile_rows);
        for (std::int64_t key = tile.begin; key < tile_end; key += gradient_rows) {
          // Queries before the key do not see it.
          const std::int64_t skipped = std::max<std::int64_t>(0, key - first);
          const T* weights = s_.scores.data() + skipped * n_keys_ + key - tile.begin;
          const T* d_scores = s_.d_scores.data() + skipped * n_keys_ + key - tile.begin;
          const std::int64_t steps = tile_rows - skipped, to = key * kernel_.width;
          kernel_.add_by_column(steps, blocks_, d_scores, n_keys_, s_.query_rows.data() + skipped * kernel_.width,
                                tile_rows * kernel_.width, s_.d_keys.data() + to, block);
          kernel_.add_by_column(steps, blocks_, weights, n_keys_, s_.d_out_rows.data() + skipped * kernel_.width,
                                tile_rows * kernel_.width, s_.d_values.data() + to, block);
        }
      }
    });
    for (std::int64_t key = 0; key < a_.seq_len; ++key) {
      expect(d_qkv + key_offset() + (key + rows_ahead) * width_);
      expect(d_qkv + value_offset() + (key + rows_ahead) * width_);
      unpack_row(s_.d_keys.data() + key * kernel_.width, n_keys_, 1, d_qkv + key_offset() + key * width_);
      unpack_row(s_.d_values.data() + key * kernel_.width, n_keys_, 1, d_qkv + value_offset() + key * width_);
    }
  }

 private:
  // Keys begin .. end - 1, in whole vectors where scores are computed.
  struct Keys {
    std::int64_t begin, end;
    std::int64_t size() const { return end - begin; }
  };

  static void reserve(AlignedBuffer<T>& buffer, std::int64_t size) {
    if (static_cast<std::int64_t>(buffer.size()) < size) buffer = AlignedBuffer<T>(static_cast<std::size_t>(size));
  }

  std::int64_t query_at(std::int64_t head) const { return entry_ * a_.seq_len * width_ + head * depth_; }
  std::int64_t key_offset() const { return entry_ * a_.seq_len * width_ + (a_.n_heads + kv_) * depth_; }
  std::int64_t value_offset() const { return key_offset() + a_.n_kv_heads * depth_; }
  const T* key_at(std::int64_t position) const { return a_.qkv + key_offset() + position * width_; }
  const T* value_at(std::int64_t position) const { return a_.qkv + value_offset() + position * width_; }
  std::int64_t out_at(std::int64_t head) const { return entry_ * a_.seq_len * out_width_ + head * depth_; }
  std::int64_t lse_at(std::int64_t head) const { return (entry_ * a_.n_heads + head) * a_.seq_len; }

  template <class Run>
  void for_each_head(const Run& run) const {
    const std::int64_t group = a_.n_heads / a_.n_kv_heads;
    for (std::int64_t head = kv_ * group; head < (kv_ + 1) * group; ++head) run(head);
  }

  std::int64_t first_seen(std::int64_t query) const {
    return a_.window == 0 ? 0 : std::max<std::int64_t>(query - a_.window + 1, 0);
  }
  // The keys that any of the queries sees, from the start of a vector on and in whole vectors.
  Keys keys_seen(std::int64_t first, std::int64_t rows) const {
    const std::int64_t begin = first_seen(first) / kernel_.width * kernel_.width;
    return {begin, begin + round_up(std::min(first + rows, a_.seq_len) - begin, kernel_.width)};
  }
  // Relative to keys.begin.
  Keys keys_of_row(std::int64_t query, const Keys& keys) const {
    return {first_seen(query) - keys.begin, query + 1 - keys.begin};
  }

  // scores [12, keys] in nats, with bias; rows beyond the text hold numbers of no meaning.
  void score(std::int64_t head, std::int64_t first, const Keys& keys, T* scores) {
    const std::int64_t rows = std::min(gradient_rows, a_.seq_len - first);
    reserve(s_.queries, gradient_rows * depth_);
    pack_panel(a_.qkv + query_at(head) + first * width_, width_, rows, scale_, s_.queries.data());
    kernel_.products(depth_, keys.size(), s_.queries.data(), s_.keys.data() + keys.begin * depth_, scores, n_keys_);
    if (!a_.bias) return;
    for (std::int64_t r = 0; r < rows; ++r) {
      const Keys seen = keys_of_row(first + r, keys);
      a_.bias->add(head, first + r, keys.begin + seen.begin, seen.size(), scores + r * n_keys_ + seen.begin);
    }
  }

  std::int64_t reserve_sums() const {
    reserve(s_.sums, blocks_ * gradient_rows * kernel_.width);
    return blocks_ * gradient_rows * kernel_.width;
  }

  // A head's rows lie far apart in memory, so that the hardware does not see the next one coming.
  void expect(const T* row) const {
    constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t c = 0; c < depth_; c += line) __builtin_prefetch(row + c);
  }
  static constexpr std::int64_t rows_ahead = 16;

  // [depth, 12], rows beyond the last 0.
  void pack_panel(const T* from, std::int64_t stride, std::int64_t rows, T factor, T* to) const {
    if (rows < gradient_rows) std::fill_n(to, depth_ * gradient_rows, T{0});
    for (std::int64_t r = 0; r < rows; ++r) {
      expect(from + (r + rows_ahead) * stride);
      for (std::int64_t c = 0; c < depth_; ++c) to[c * gradient_rows + r] = from[r * stride + c] * factor;
    }
  }
  // All positions as [n_keys / W, depth, W], 0 beyond the last.
  void pack_columns(const T* from, AlignedBuffer<T>& to) const {
    const std::int64_t w = kernel_.width;
    reserve(to, n_keys_ * depth_);
    for (std::int64_t first = 0; first < n_keys_; first += w) {
      T* panel = to.data() + first * depth_;
      const std::int64_t n = std::clamp<std::int64_t>(a_.seq_len - first, 0, w);
      if (n < w) std::fill_n(panel, depth_ * w, T{0});
      for (std::int64_t j = 0; j < n; ++j) {
        const T* row = from + (first + j) * width_;
        expect(row + rows_ahead * width_);
        for (std::int64_t c = 0; c < depth_; ++c) panel[c * w + j] = row[c];
      }
    }
  }
  // `rows` rows as [blocks, capacity, W], 0 beyond the last row and channel.
  void pack_rows(const T* from, std::int64_t stride, std::int64_t rows, T factor, AlignedBuffer<T>& to,
                 std::int64_t capacity) const {
    const std::int64_t w = kernel_.width;
    reserve(to, blocks_ * capacity * w);
    for (std::int64_t block = 0; block < blocks_; ++block) {
      const std::int64_t channels = std::min(w, depth_ - block * w);
      T* row = to.data() + block * capacity * w;
      for (std::int64_t r = 0; r < rows; ++r, row += w) {
        const T* values = from + r * stride + block * w;
        for (std::int64_t c = 0; c < channels; ++c) row[c] = values[c] * factor;
        std::fill(row + channels, row + w, T{0});
      }
      std::fill_n(row, (capacity - rows) * w, T{0});
    }
  }
  // One row of sums [blocks, rows, W] as channels side by side.
  void unpack_row(const T* sums, std::int64_t rows, T factor, T* to) const {
    const std::int64_t w = kernel_.width;
    for (std::int64_t first = 0; first < depth_; first += w, sums += rows * w) {
      const std::int64_t channels = std::min(w, depth_ - first);
      for (std::int64_t c = 0; c < channels; ++c) to[first + c] = sums[c] * factor;
    }
  }
  // The product of two heads' channels, in eight interleaved sums.
  T dot(const T* x, const T* y) const {
    T sums[8] = {};
    std::int64_t c = 0;
    for (; c + 8 <= depth_; c += 8) {
      for (std::int64_t i = 0; i < 8; ++i) sums[i] += x[c + i] * y[c + i];
    }
    for (; c < depth_; ++c) sums[0] += x[c] * y[c];
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
  }
  void clear_rows(T* scores, T* d_scores, std::int64_t n) const {
    for (std::int64_t r = 0; r < gradient_rows; ++r) {
      std::fill_n(scores + r * n_keys_, n, T{0});
      std::fill_n(d_scores + r * n_keys_, n, T{0});
    }
  }

  const AttentionBatch<T>& a_;
  AttentionScratch<T>& s_;
  const kernels::AttentionGradientKernel<T>& kernel_;
  const std::int64_t entry_, kv_, depth_, width_, out_width_, blocks_, n_keys_;
  const T scale_;
};

}  // namespace

template <class T>
void attention_forward(const AttentionBatch<T>& a, T* out, T* lse, Pool<AttentionScratch<T>>& scratch, int threads) {
  // Few key-value heads would leave threads idle: long texts are then cut once more, the costly end first.
  const bool cut = a.batch * a.n_kv_heads < enough_tasks;
  const std::int64_t size = cut ? queries_per_task : a.seq_len;
  const std::int64_t pieces = ceil_div(a.seq_len, size);
  parallel_for(a.batch * a.n_kv_heads * pieces, threads, [&](std::int64_t task) {
    typename Pool<AttentionScratch<T>>::Lease lease(scratch);
    const std::int64_t first = (pieces - 1 - task / (a.batch * a.n_kv_heads)) * size;
    const std::int64_t head = task % (a.batch * a.n_kv_heads);
    HeadTask<T>(a, *lease, head / a.n_kv_heads, head % a.n_kv_heads)
        .forward(out, lse, first, std::min(first + size, a.seq_len));
  });
}

template <class T>
void attention_backward(const AttentionBatch<T>& a, const T* out, const T* lse, const T* d_out, T* d_qkv,
                        double* bias_sums, Pool<AttentionScratch<T>>& scratch, int threads) {
  double* sums = a.bias && a.bias->sums_size() > 0 ? bias_sums : nullptr;
  parallel_for(a.batch * a.n_kv_heads, threads, [&](std::int64_t task) {
    typename Pool<AttentionScratch<T>>::Lease lease(scratch);
    HeadTask<T>(a, *lease, task / a.n_kv_heads, task % a.n_kv_heads).backward(out, lse, d_out, d_qkv, sums);
  });
}

#define POSLAB_INSTANTIATE(T)                                                                              \
  template void attention_forward<T>(const AttentionBatch<T>&, T*, T*, Pool<AttentionScratch<T>>&, int);   \
  template void attention_backward<T>(const AttentionBatch<T>&, const T*, const T*, const T*, T*, double*, \
                                      Pool<AttentionScratch<T>>&, int);
POSLAB_INSTANTIATE(float)
POSLAB_INSTANTIATE(double)
#undef POSLAB_INSTANTIATE

}  // namespace poslab
