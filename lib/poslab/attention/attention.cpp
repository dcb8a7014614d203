#include "poslab/attention/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "poslab/core/aligned.h"
#include "poslab/core/rounding.h"
#include "poslab/core/threads.h"
#include "poslab/kernels/attention_tile.kernel.h"

namespace poslab {
namespace {

using kernels::attention_rows;

constexpr std::int64_t panels_per_task = 8;
constexpr std::int64_t task_rows = panels_per_task * attention_rows;
// Packed keys and values of as many heads as fit here stand in memory at a time.
constexpr std::int64_t packed_bytes = 32 << 20;

void check(bool good, const std::string& sentence) {
  if (!good) throw std::invalid_argument("[attention] " + sentence);
}

// The options with every default filled in.
struct Resolved {
  AttentionShape shape;
  const AttentionRotation* rotation;
  const PositionBias* bias;
  std::vector<double> query_positions, key_positions;
  std::vector<KeyRange> visible;
  double score_scale;
};

std::vector<double> resolve_positions(const std::vector<double>& given, std::int64_t n, std::int64_t first,
                                      const char* name) {
  if (given.empty()) {
    std::vector<double> positions(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) positions[static_cast<std::size_t>(i)] = static_cast<double>(first + i);
    return positions;
  }
  check(static_cast<std::int64_t>(given.size()) == n,
        fmt::format("there are {} {} for {} rows.", given.size(), name, n));
  for (double position : given) {
    check(std::isfinite(position), fmt::format("{} must be finite but hold {}.", name, position));
  }
  return given;
}

Resolved resolve(const AttentionShape& s, const AttentionOptions& options) {
  check(s.n_heads > 0 && s.n_kv_heads > 0 && s.head_dim > 0 && s.seq_q >= 0 && s.seq_k >= 0,
        fmt::format("sizes must be positive but got n_heads {}, n_kv_heads {}, head_dim {}, seq_q {}, seq_k {}.",
                    s.n_heads, s.n_kv_heads, s.head_dim, s.seq_q, s.seq_k));
  check(s.n_heads % s.n_kv_heads == 0,
        fmt::format("n_heads {} is not a multiple of n_kv_heads {}.", s.n_heads, s.n_kv_heads));
  Resolved r{s,
             options.rotation ? &*options.rotation : nullptr,
             options.bias.get(),
             resolve_positions(options.query_positions, s.seq_q, s.seq_k - s.seq_q, "query_positions"),
             resolve_positions(options.key_positions, s.seq_k, 0, "key_positions"),
             options.visible,
             options.score_scale.value_or(1 / std::sqrt(static_cast<double>(s.head_dim)))};
  if (r.visible.empty()) r.visible.assign(static_cast<std::size_t>(s.seq_q), KeyRange{0, s.seq_k});
  check(static_cast<std::int64_t>(r.visible.size()) == s.seq_q,
        fmt::format("there are {} key ranges for {} queries.", r.visible.size(), s.seq_q));
  for (const KeyRange& range : r.visible) {
    check(range.begin >= 0 && range.end <= s.seq_k,
          fmt::format("keys {} .. {} are asked for but there are {}.", range.begin, range.end - 1, s.seq_k));
  }
  if (r.rotation) {
    check(2 * std::ssize(r.rotation->inv_freq) <= s.head_dim,
          fmt::format("{} pairs do not fit in head_dim {}.", r.rotation->inv_freq.size(), s.head_dim));
  }
  if (r.bias) {
    check(r.bias->n_heads() == s.n_heads,
          fmt::format("the bias has {} heads but there are {}.", r.bias->n_heads(), s.n_heads));
  }
  return r;
}

bool consecutive(const std::vector<double>& positions) {
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] != positions[0] + static_cast<double>(i)) return false;
  }
  return true;
}

enum class Side { queries, keys };

// Copies `n` rows of one head, rotated where there is a rotation, side by side into `rows`.
template <class T>
void gather_rows(const Resolved& r, Side side, HeadView<const T> x, std::int64_t head, std::int64_t first,
                 std::int64_t n, std::span<T> rows) {
  const std::int64_t width = r.shape.head_dim;
  for (std::int64_t i = 0; i < n; ++i) std::copy_n(x.row(head, first + i), width, rows.data() + i * width);
  if (!r.rotation) return;
  const std::span<const double> positions = std::span(side == Side::queries ? r.query_positions : r.key_positions)
                                                .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n));
  const std::span<T> rotated = rows.first(static_cast<std::size_t>(n * width));
  apply_rope<T>(rotated, rotated, 1, width, positions, r.rotation->inv_freq, r.rotation->layout,
                r.rotation->attention_factor);
  if (r.rotation->growth) {
    grow_pairs<T>(rotated, width, positions, r.rotation->growth, side == Side::keys, r.rotation->layout);
  }
}

template <class T>
const kernels::AttentionKernel<T>& kernel_for(Isa isa) {
  const kernels::AttentionKernels& table = POSLAB_CHOOSE_ISA(isa, attention_kernels);
  if constexpr (std::is_same_v<T, float>) {
    return table.f32;
  } else {
    return table.f64;
  }
}

template <class T>
class TiledAttention {
 public:
  TiledAttention(const AttentionShape& shape, const AttentionOptions& options, HeadView<const T> q, HeadView<const T> k,
                 HeadView<const T> v, HeadView<T> out)
      : r_(resolve(shape, options)),
        kernel_(kernel_for<T>(options.isa ? *options.isa : active_isa())),
        q_(q),
        k_(k),
        v_(v),
        out_(out),
        n_tiles_(ceil_div(shape.seq_k, tile_keys)),
        n_blocks_(ceil_div(shape.head_dim, kernel_.width)),
        key_tile_(tile_keys * shape.head_dim),
        value_tile_(tile_keys * n_blocks_ * kernel_.width),
        has_bias_(r_.bias != nullptr),
        bias_by_distance_(has_bias_ && r_.bias->by_distance() && consecutive(r_.query_positions) &&
                          consecutive(r_.key_positions)),
        bias_falls_(bias_by_distance_ && r_.bias->falls()) {}

  void run(int threads) {
    const AttentionShape& s = r_.shape;
    if (s.seq_q == 0) return;
    const std::int64_t group = s.n_heads / s.n_kv_heads;
    const std::int64_t head_bytes =
        std::max<std::int64_t>(1, n_tiles_ * (key_tile_ + value_tile_) * static_cast<std::int64_t>(sizeof(T)));
    const std::int64_t heads_at_once = std::clamp<std::int64_t>(packed_bytes / head_bytes, 1, s.n_kv_heads);
    keys_ = AlignedBuffer<T>(static_cast<std::size_t>(heads_at_once * n_tiles_ * key_tile_));
    values_ = AlignedBuffer<T>(static_cast<std::size_t>(heads_at_once * n_tiles_ * value_tile_));
    key_norms_.resize(static_cast<std::size_t>(heads_at_once * n_tiles_));
    if (bias_by_distance_) bias_ = AlignedBuffer<T>(static_cast<std::size_t>(heads_at_once * group * bias_length()));
    const std::int64_t n_query_tiles = ceil_div(s.seq_q, task_rows);
    for (first_kv_ = 0; first_kv_ < s.n_kv_heads; first_kv_ += heads_at_once) {
      const std::int64_t n_kv = std::min(heads_at_once, s.n_kv_heads - first_kv_);
      parallel_for(n_kv * n_tiles_, threads, [&](std::int64_t task) { pack_tile(task / n_tiles_, task % n_tiles_); });
      const std::int64_t n = n_kv * group;
      if (bias_by_distance_) parallel_for(n, threads, [&](std::int64_t head) { fill_bias(head); });
      // The last queries first: under a causal mask they take longest.
      parallel_for(n * n_query_tiles, threads,
                   [&](std::int64_t task) { attend(task % n, n_query_tiles - 1 - task / n); });
    }
  }

 private:
  static constexpr std::int64_t tile_keys = kernels::attention_tile_keys<T>;

  // Relative positions of consecutive tokens, and room for the keys that fill up the last vectors.
  std::int64_t bias_length() const { return r_.shape.seq_q + r_.shape.seq_k + kernel_.width; }

  void pack_tile(std::int64_t kv, std::int64_t tile) {
    const std::int64_t head_dim = r_.shape.head_dim;
    const std::int64_t width = kernel_.width;
    const std::int64_t first = tile * tile_keys;
    const std::int64_t n = std::min(tile_keys, r_.shape.seq_k - first);
    AlignedBuffer<T> rows(static_cast<std::size_t>(n * head_dim));
    gather_rows(r_, Side::keys, k_, first_kv_ + kv, first, n, rows.span());
    T* keys = keys_.data() + (kv * n_tiles_ + tile) * key_tile_;
    for (std::int64_t panel = 0; panel * width < n; ++panel) {
      T* to = keys + panel * width * head_dim;
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int64_t key = panel * width + i;
        const T* from = rows.data() + key * head_dim;
        for (std::int64_t c = 0; c < head_dim; ++c) to[c * width + i] = key < n ? from[c] : T{0};
      }
    }
    if (bias_falls_) key_norms_[static_cast<std::size_t>(kv * n_tiles_ + tile)] = largest_norm(rows.span());
    T* values = values_.data() + (kv * n_tiles_ + tile) * value_tile_;
    for (std::int64_t block = 0; block < n_blocks_; ++block) {
      const std::int64_t channels = std::min(width, head_dim - block * width);
      for (std::int64_t key = 0; key < ceil_div(n, width) * width; ++key) {
        T* to = values + (block * tile_keys + key) * width;
        std::fill_n(to, width, T{0});
        if (key < n) std::copy_n(v_.row(first_kv_ + kv, first + key) + block * width, channels, to);
      }
    }
  }

  // The largest Euclidean norm of the rows of one head.
  double largest_norm(std::span<const T> rows) const {
    double largest = 0;
    for (std::size_t i = 0; i < rows.size(); i += static_cast<std::size_t>(r_.shape.head_dim)) {
      double squares = 0;
      for (const T x : rows.subspan(i, static_cast<std::size_t>(r_.shape.head_dim))) {
        squares += static_cast<double>(x) * static_cast<double>(x);
      }
      largest = std::max(largest, std::sqrt(squares));
    }
    return largest;
  }

  double scaled_bias(std::int64_t head, double query, double key) const {
    return r_.bias->at(head, query, key) * std::numbers::log2e;
  }

  void fill_bias(std::int64_t head) {
    const std::int64_t first_head = first_kv_ * (r_.shape.n_heads / r_.shape.n_kv_heads);
    T* bias = bias_.data() + head * bias_length();
    const double least = r_.shape.seq_k == 0 ? 0 : r_.key_positions[0] - r_.query_positions.back();
    for (std::int64_t i = 0; i < bias_length(); ++i) {
      bias[i] = static_cast<T>(scaled_bias(first_head + head, 0, least + static_cast<double>(i)));
    }
  }

  // Everything that one task needs while it takes its queries through the tiles of keys.
  struct Scratch {
    Scratch(std::int64_t head_dim, std::int64_t block_size, std::int64_t lanes, bool with_bias)
        : queries(static_cast<std::size_t>(task_rows * head_dim), T{0}),
          scores(static_cast<std::size_t>(attention_rows * tile_keys)),
          row_max(task_rows, std::numeric_limits<T>::lowest()),
          row_sum(static_cast<std::size_t>(task_rows * lanes), T{0}),
          sums(static_cast<std::size_t>(task_rows * block_size), T{0}),
          bias(static_cast<std::size_t>(with_bias ? attention_rows * tile_keys : 0)) {}
    AlignedBuffer<T> queries, scores, row_max, row_sum, sums, bias;
  };

  void attend(std::int64_t head, std::int64_t query_tile) {
    const AttentionShape& s = r_.shape;
    const std::int64_t group = s.n_heads / s.n_kv_heads;
    const std::int64_t kv = head / group;
    const std::int64_t global_head = first_kv_ * group + head;
    const std::int64_t first_row = query_tile * task_rows;
    const std::int64_t n_rows = std::min(task_rows, s.seq_q - first_row);
    const std::int64_t lanes = kernel_.width / 2;
    const std::int64_t panel_sums = n_blocks_ * attention_rows * kernel_.width;
    Scratch scratch(s.head_dim, n_blocks_ * kernel_.width, lanes, has_bias_ && !bias_by_distance_);
    const double query_norm = pack_queries(global_head, first_row, n_rows, scratch.queries);

    // The nearest keys first: they tend to hold the largest scores, against which far ones then count as nothing.
    for (std::int64_t tile = n_tiles_ - 1; tile >= 0; --tile) {
      const std::int64_t first_key = tile * tile_keys;
      const std::int64_t n_keys = std::min(tile_keys, s.seq_k - first_key);
      for (std::int64_t row = 0; row < n_rows; row += attention_rows) {
        std::int64_t begin[attention_rows] = {}, end[attention_rows] = {};
        std::int64_t first = n_keys, last = 0;
        for (std::int64_t i = 0; i < std::min(attention_rows, n_rows - row); ++i) {
          const KeyRange& range = r_.visible[static_cast<std::size_t>(first_row + row + i)];
          begin[i] = std::max<std::int64_t>(range.begin - first_key, 0);
          end[i] = std::min(range.end - first_key, n_keys);
          if (begin[i] >= end[i]) continue;
          first = std::min(first, begin[i]);
          last = std::max(last, end[i]);
        }
        if (first >= last) continue;
        if (bias_falls_ && is_too_far(global_head, first_row + row, first_key + first, first_key + last,
                                      query_norm * key_norms_[static_cast<std::size_t>(kv * n_tiles_ + tile)],
                                      scratch.row_max.data() + row)) {
          continue;
        }
        const T* bias[attention_rows];
        if (has_bias_) point_to_bias(head, global_head, first_row + row, first_key, scratch.bias, bias);
        kernel_.panel({s.head_dim, n_blocks_, first, last, begin, end, scratch.queries.data() + row * s.head_dim,
                       keys_.data() + (kv * n_tiles_ + tile) * key_tile_,
                       values_.data() + (kv * n_tiles_ + tile) * value_tile_, has_bias_ ? bias : nullptr,
                       scratch.scores.data(), scratch.row_max.data() + row, scratch.row_sum.data() + row * lanes,
                       scratch.sums.data() + row / attention_rows * panel_sums});
      }
    }
    for (std::int64_t row = 0; row < n_rows; ++row) {
      T sum = 0;
      for (std::int64_t i = 0; i < lanes; ++i) sum += scratch.row_sum.data()[row * lanes + i];
      T* to = out_.row(global_head, first_row + row);
      const T* from = scratch.sums.data() + row / attention_rows * panel_sums + row % attention_rows * kernel_.width;
      for (std::int64_t c = 0; c < s.head_dim; c += kernel_.width, from += attention_rows * kernel_.width) {
        const std::int64_t channels = std::min(kernel_.width, s.head_dim - c);
        for (std::int64_t i = 0; i < channels; ++i) to[c + i] = sum == 0 ? T{0} : from[i] / sum;
      }
    }
  }

  // Whether a bias that falls with distance alone makes every weight of these queries for keys first .. last - 1
  // exactly 0, since no product of a query and a key exceeds `largest_product` (Cauchy and Schwarz). The unit of slack
  // covers rounding.
  bool is_too_far(std::int64_t global_head, std::int64_t row, std::int64_t first, std::int64_t last,
                  double largest_product, const T* row_max) const {
    const double first_key = r_.key_positions[static_cast<std::size_t>(first)];
    const double last_key = r_.key_positions[static_cast<std::size_t>(last - 1)];
    const std::int64_t n = std::min(attention_rows, r_.shape.seq_q - row);
    for (std::int64_t i = 0; i < n; ++i) {
      const double query = r_.query_positions[static_cast<std::size_t>(row + i)];
      const double nearest = std::clamp(query, first_key, last_key);
      const double best = largest_product + scaled_bias(global_head, query, nearest) + 1;
      if (!(best < static_cast<double>(row_max[i]) + static_cast<double>(kernel_.least))) return false;
    }
    return true;
  }

  // Returns the largest norm of the packed queries.
  double pack_queries(std::int64_t global_head, std::int64_t first_row, std::int64_t n_rows,
                      AlignedBuffer<T>& queries) {
    const std::int64_t head_dim = r_.shape.head_dim;
    AlignedBuffer<T> rows(static_cast<std::size_t>(n_rows * head_dim));
    gather_rows(r_, Side::queries, q_, global_head, first_row, n_rows, rows.span());
    const T scale = static_cast<T>(r_.score_scale * std::numbers::log2e);
    for (std::int64_t row = 0; row < n_rows; ++row) {
      T* to = queries.data() + row / attention_rows * attention_rows * head_dim + row % attention_rows;
      for (std::int64_t c = 0; c < head_dim; ++c) to[c * attention_rows] = rows.data()[row * head_dim + c] * scale;
    }
    return bias_falls_ ? largest_norm(rows.span()) * std::abs(static_cast<double>(scale)) : 0;
  }

  void point_to_bias(std::int64_t head, std::int64_t global_head, std::int64_t first_row, std::int64_t first_key,
                     AlignedBuffer<T>& scratch, const T* (&bias)[attention_rows]) {
    for (std::int64_t i = 0; i < attention_rows; ++i) {
      const std::int64_t row = std::min(first_row + i, r_.shape.seq_q - 1);
      if (bias_by_distance_) {
        bias[i] = bias_.data() + head * bias_length() + first_key + r_.shape.seq_q - 1 - row;
        continue;
      }
      T* to = scratch.data() + i * tile_keys;
      bias[i] = to;
      for (std::int64_t key = 0; key < tile_keys; ++key) {
        const std::int64_t place = std::min(first_key + key, r_.shape.seq_k - 1);
        to[key] = static_cast<T>(scaled_bias(global_head, r_.query_positions[static_cast<std::size_t>(row)],
                                             r_.key_positions[static_cast<std::size_t>(place)]));
      }
    }
  }

  const Resolved r_;
  const kernels::AttentionKernel<T>& kernel_;
  const HeadView<const T> q_, k_, v_;
  const HeadView<T> out_;
  const std::int64_t n_tiles_, n_blocks_, key_tile_, value_tile_;
  const bool has_bias_;
  const bool bias_by_distance_;    // positions are consecutive: one number per distance serves all queries
  const bool bias_falls_;          // tiles too far away for any weight can be told beforehand
  std::vector<double> key_norms_;  // of the packed tiles
  std::int64_t first_kv_ = 0;      // the heads whose keys and values are packed now start here
  AlignedBuffer<T> keys_, values_, bias_;
};

}  // namespace

template <class T>
void attention(const AttentionShape& shape, const AttentionOptions& options, HeadView<const T> q, HeadView<const T> k,
               HeadView<const T> v, HeadView<T> out, int threads) {
  TiledAttention<T>(shape, options, q, k, v, out).run(threads);
}

template void attention<float>(const AttentionShape&, const AttentionOptions&, HeadView<const float>,
                               HeadView<const float>, HeadView<const float>, HeadView<float>, int);
template void attention<double>(const AttentionShape&, const AttentionOptions&, HeadView<const double>,
                                HeadView<const double>, HeadView<const double>, HeadView<double>, int);

AttentionTrace attention_reference(const AttentionShape& shape, const AttentionOptions& options,
                                   HeadView<const double> q, HeadView<const double> k, HeadView<const double> v) {
  const Resolved r = resolve(shape, options);
  const auto size = [](std::int64_t a, std::int64_t b, std::int64_t c) { return static_cast<std::size_t>(a * b * c); };
  const std::int64_t seq_k = shape.seq_k, d = shape.head_dim;
  AttentionTrace trace{std::vector<double>(size(shape.n_heads, shape.seq_q, seq_k)),
                       std::vector<double>(size(shape.n_heads, shape.seq_q, seq_k)),
                       std::vector<double>(size(shape.n_heads, shape.seq_q, d))};
  std::vector<double> queries(size(1, shape.seq_q, d)), keys(size(1, seq_k, d));
  for (std::int64_t head = 0; head < shape.n_heads; ++head) {
    const std::int64_t kv = head / (shape.n_heads / shape.n_kv_heads);
    gather_rows<double>(r, Side::queries, q, head, 0, shape.seq_q, queries);
    gather_rows<double>(r, Side::keys, k, kv, 0, seq_k, keys);
    for (std::int64_t i = 0; i < shape.seq_q; ++i) {
      const KeyRange& visible = r.visible[static_cast<std::size_t>(i)];
      double* scores = trace.scores.data() + (head * shape.seq_q + i) * seq_k;
      double* weights = trace.weights.data() + (head * shape.seq_q + i) * seq_k;
      double max = -std::numeric_limits<double>::infinity();
      for (std::int64_t j = 0; j < seq_k; ++j) {
        double dot = 0;
        for (std::int64_t c = 0; c < d; ++c) dot += queries[size(1, i, d) + c] * keys[size(1, j, d) + c];
        scores[j] = -std::numeric_limits<double>::infinity();
        if (j >= visible.begin && j < visible.end) {
          scores[j] = dot * r.score_scale;
          if (r.bias) {
            scores[j] += r.bias->at(head, r.query_positions[static_cast<std::size_t>(i)],
                                    r.key_positions[static_cast<std::size_t>(j)]);
          }
        }
        max = std::max(max, scores[j]);
      }
      if (visible.begin >= visible.end) continue;
      double sum = 0;
      for (std::int64_t j = 0; j < seq_k; ++j) sum += weights[j] = std::exp(scores[j] - max);
      double* out = trace.out.data() + (head * shape.seq_q + i) * d;
      for (std::int64_t j = 0; j < seq_k; ++j) {
        weights[j] /= sum;
        for (std::int64_t c = 0; c < d; ++c) out[c] += weights[j] * v.row(kv, j)[c];
      }
    }
  }
  return trace;
}

}  // namespace poslab
