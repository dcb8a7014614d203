#include "poslab/models/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "poslab/attention/attention_gradient.h"
#include "poslab/core/aligned.h"
#include "poslab/core/blas.h"
#include "poslab/core/pool.h"
#include "poslab/core/threads.h"
#include "poslab/encodings/learned.h"
#include "poslab/encodings/rope_variants.h"
#include "poslab/encodings/sinusoidal.h"
#include "poslab/kernels/rotation.h"
#include "poslab/models/pointwise.h"
#include "poslab/models/score_bias.h"

namespace poslab {
namespace {

// Rows that pass through a layer's products together, while they stand in the caches.
constexpr std::int64_t block_rows = 256;
// The backward pass is cut into at most so many tasks, each with its own sums of weight gradients.
constexpr std::int64_t gradient_tasks = 8;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

template <class T>
AlignedBuffer<T> buffer(std::int64_t size) {
  return AlignedBuffer<T>(static_cast<std::size_t>(size));
}

// cos and sin of every position and pair, as they multiply queries and keys.
template <class T>
struct Turns {
  std::int64_t n_pairs = 0;
  AlignedBuffer<T> cosines, sines;          // [seq_len, n_pairs]
  AlignedBuffer<T> key_cosines, key_sines;  // the same for the keys where they differ, else empty
};

template <class T>
Turns<T> make_turns(const TransformerConfig& config, const RopeFrequencies& rope, std::int64_t seq_len) {
  Turns<T> turns;
  turns.n_pairs = std::ssize(rope.inv_freq);
  if (2 * turns.n_pairs > config.head_dim) {
    throw std::invalid_argument(
        fmt::format("[transformer] {} pairs do not fit in head_dim {}.", turns.n_pairs, config.head_dim));
  }
  const bool xpos = config.encoding == PositionEncoding::xpos;
  const std::int64_t size = seq_len * turns.n_pairs;
  turns.cosines = buffer<T>(size);
  turns.sines = buffer<T>(size);
  if (xpos) {
    turns.key_cosines = buffer<T>(size);
    turns.key_sines = buffer<T>(size);
  }
  for (std::int64_t position = 0; position < seq_len; ++position) {
    // Counted from the middle of the text: scores depend on the distance alone, and the factors stay near 1.
    const std::vector<double> growth =
        xpos ? xpos_decay(2 * turns.n_pairs, static_cast<double>(position - seq_len / 2)) : std::vector<double>();
    for (std::int64_t i = 0; i < turns.n_pairs; ++i) {
      const double angle = static_cast<double>(position) * rope.inv_freq[static_cast<std::size_t>(i)];
      const double c = rope.attention_factor * std::cos(angle), s = rope.attention_factor * std::sin(angle);
      const std::int64_t at = position * turns.n_pairs + i;
      const double grow = xpos ? growth[static_cast<std::size_t>(i)] : 1;
      turns.cosines.data()[at] = static_cast<T>(c * grow);
      turns.sines.data()[at] = static_cast<T>(s * grow);
      if (!xpos) continue;
      turns.key_cosines.data()[at] = static_cast<T>(c / grow);
      turns.key_sines.data()[at] = static_cast<T>(s / grow);
    }
  }
  return turns;
}

// Turns the pairs of `rows` heads in place, the first at `x`, each `stride` after the last.
void turn(RopeLayout layout, bool inverse, float* x, std::int64_t stride, std::int64_t rows, std::int64_t n_pairs,
          const float* cosines, const float* sines) {
  RotationRows r;
  r.half = layout == RopeLayout::half;
  r.inverse = inverse;
  r.x = r.out = x;
  r.x_stride = r.out_stride = static_cast<std::size_t>(stride);
  r.rows = static_cast<std::size_t>(rows);
  r.n_pairs = static_cast<std::size_t>(n_pairs);
  r.width = 2 * r.n_pairs;
  r.cosines = cosines;
  r.sines = sines;
  r.table_stride = r.n_pairs;
  rotate_rows(r);
}

void turn(RopeLayout layout, bool inverse, double* x, std::int64_t stride, std::int64_t rows, std::int64_t n_pairs,
          const double* cosines, const double* sines) {
  for (std::int64_t r = 0; r < rows; ++r, x += stride, cosines += n_pairs, sines += n_pairs) {
    for (std::int64_t i = 0; i < n_pairs; ++i) {
      const PairChannels pair = rope_pair_channels(layout, 2 * n_pairs, i);
      const double a = x[pair.first], b = x[pair.second], s = inverse ? -sines[i] : sines[i];
      x[pair.first] = a * cosines[i] - b * s;
      x[pair.second] = a * s + b * cosines[i];
    }
  }
}

// y [rows, out] = x [rows, in] W^T (+ bias), W [out, in]; added to y instead where `add`.
template <class T>
void linear(std::int64_t rows, std::int64_t out, std::int64_t in, const T* x, const T* weight, const T* bias, T* y,
            bool add = false) {
  gemm<T>(Transpose::no, Transpose::yes, rows, out, in, 1, x, in, weight, in, add ? 1 : 0, y, out);
  if (bias) add_bias(rows, out, bias, y);
}

// d_weight += d_y^T x, d_bias += the rows of d_y, and d_x = d_y W.
template <class T>
void linear_backward(std::int64_t rows, std::int64_t out, std::int64_t in, const T* x, const T* weight, const T* d_y,
                     T* d_weight, T* d_bias, T* d_x) {
  gemm<T>(Transpose::yes, Transpose::no, out, in, rows, 1, d_y, out, x, in, 1, d_weight, in);
  if (d_bias) add_column_sums(rows, out, d_y, d_bias);
  gemm<T>(Transpose::no, Transpose::no, rows, in, out, 1, d_y, out, weight, in, 0, d_x, in);
}

}  // namespace

template <class T>
struct Transformer<T>::State {
  explicit State(const TransformerConfig& config)
      : c(config), layout(config), values(static_cast<std::size_t>(layout.size()), T{0}) {}

  TransformerConfig c;
  ParameterLayout layout;
  AlignedBuffer<T> values;

  // Parameters of a layer, or their gradients, by the layout's offsets.
  static T* at(T* base, std::int64_t offset) { return offset < 0 ? nullptr : base + offset; }
  static const T* at(const T* base, std::int64_t offset) { return offset < 0 ? nullptr : base + offset; }
  NormParameters<T> norm(std::int64_t gain, std::int64_t bias, const T* base) const {
    return {c.norm, c.norm_eps, at(base, gain), at(base, bias)};
  }

  struct Pass;
  std::unique_ptr<Pass> training;  // kept from call to call
};

// One run over a batch: activations, and what the positions bring in. For training every layer keeps its own
// activations; otherwise all layers share one layer's.
template <class T>
struct Transformer<T>::State::Pass {
  Pass(const State& state, std::int64_t batch_size, std::int64_t length, const ForwardOptions& options, bool training)
      : s(state),
        c(state.c),
        batch(batch_size),
        seq_len(length),
        rows(batch_size * length),
        threads(options.threads),
        kept(training),
        widest(std::max({c.up_width(), c.qkv_width(), c.vocab_size, c.d_model})),
        scratch_size(block_rows * (2 * c.d_model + c.d_ff + 2 * widest)) {
    const std::int64_t layers = kept ? c.n_layers : 1;
    stream = buffer<T>(rows * c.d_model * (kept ? 2 * c.n_layers + 1 : 1));
    qkv = buffer<T>(layers * rows * c.qkv_width());
    attended = buffer<T>(layers * rows * c.attention_width());
    up = buffer<T>(kept ? layers * rows * c.up_width() : 0);
    lse = buffer<T>(layers * rows * c.n_heads);
    if (turns_pairs(c.encoding)) {
      turns = make_turns<T>(c, options.rope ? *options.rope : rope_frequencies(c.rope, length), length);
    }
    if (c.encoding == PositionEncoding::sinusoidal) {
      waves = buffer<double>(length * c.d_model);
      SinusoidalTable(c.d_model).fill(0, waves.span());
    }
    window = options.attention_window.value_or(c.attention_window);
    if (!kept) return;
    d_stream = buffer<T>(rows * c.d_model);
    d_attended = buffer<T>(rows * c.attention_width());
    d_qkv = buffer<T>(rows * c.qkv_width());
    task_rows = ceil_div(ceil_div(rows, gradient_tasks), block_rows) * block_rows;
    n_tasks = ceil_div(rows, task_rows);
    partial_size = std::max(s.layout.layer_size(), c.vocab_size * c.d_model + 2 * c.d_model);
    partials = buffer<T>(n_tasks * partial_size);
    losses.resize(static_cast<std::size_t>(rows));
  }

  const State& s;
  const TransformerConfig& c;
  const std::int64_t batch, seq_len, rows;
  int threads;
  const bool kept;
  const std::int64_t widest;
  const std::int64_t scratch_size;  // of one task
  Pool<AlignedBuffer<T>> pool;
  Pool<AttentionScratch<T>> attention_pool;
  std::int64_t window = 0;
  Turns<T> turns;
  AlignedBuffer<double> waves;                // [seq_len, d_model]
  std::unique_ptr<LearnedScoreBias<T>> bias;  // made anew at each run: its parameters may have changed
  AlignedBuffer<T> stream;                  // [2 n_layers + 1, rows, d_model]: before each half of a layer, at the end
  AlignedBuffer<T> qkv, attended, up, lse;  // [n_layers, ...]
  AlignedBuffer<T> d_stream, d_attended, d_qkv;
  std::int64_t task_rows = 0, n_tasks = 0, partial_size = 0;
  AlignedBuffer<T> partials;  // [n_tasks, partial_size]
  std::vector<double> losses, bias_sums;

  T* stream_at(std::int64_t half) { return stream.data() + (kept ? half * rows * c.d_model : 0); }
  T* slot(AlignedBuffer<T>& of, std::int64_t layer, std::int64_t width) {
    return of.data() + (kept ? layer * rows * width : 0);
  }

  AttentionBatch<T> attention(std::int64_t layer) {
    return {batch, seq_len, c.n_heads, c.n_kv_heads, c.head_dim, window, bias.get(), slot(qkv, layer, c.qkv_width())};
  }

  void embed(std::span<const std::int64_t> tokens) {
    const std::int64_t d = c.d_model;
    const T* table = s.values.data() + s.layout.embed;
    const T* seats = at(s.values.data(), s.layout.positions);
    const T scale = static_cast<T>(std::sqrt(static_cast<double>(d)));
    T* to = stream_at(0);
    for (std::int64_t row = 0; row < rows; ++row, to += d) {
      const T* from = table + tokens[static_cast<std::size_t>(row)] * d;
      const std::int64_t position = row % seq_len;
      if (seats) {
        for (std::int64_t i = 0; i < d; ++i) to[i] = from[i] + seats[position * d + i];
      } else if (c.encoding == PositionEncoding::sinusoidal) {
        for (std::int64_t i = 0; i < d; ++i) {
          to[i] = from[i] * scale + static_cast<T>(waves.data()[position * d + i]);
        }
      } else {
        std::copy_n(from, d, to);
      }
    }
  }

  // Turns the queries and keys of rows first .. first + n - 1, in place.
  void turn_rows(T* qkv_rows, std::int64_t first, std::int64_t n, bool inverse) {
    if (turns.n_pairs == 0) return;
    for (std::int64_t done = 0; done < n;) {
      const std::int64_t position = (first + done) % seq_len;
      const std::int64_t count = std::min(n - done, seq_len - position);
      const std::int64_t table = position * turns.n_pairs;
      for (std::int64_t head = 0; head < c.n_heads + c.n_kv_heads; ++head) {
        const bool own = head >= c.n_heads && turns.key_cosines.size() > 0;
        turn(c.layout, inverse, qkv_rows + done * c.qkv_width() + head * c.head_dim, c.qkv_width(), count,
             turns.n_pairs, (own ? turns.key_cosines : turns.cosines).data() + table,
             (own ? turns.key_sines : turns.sines).data() + table);
      }
      done += count;
    }
  }

  template <class Run>
  void for_each_block(const Run& run) {
    parallel_for(ceil_div(rows, block_rows), threads, [&](std::int64_t task) {
      typename Pool<AlignedBuffer<T>>::Lease scratch(pool);
      if (scratch->size() == 0) *scratch = buffer<T>(scratch_size);
      run(task * block_rows, std::min(block_rows, rows - task * block_rows), scratch->data());
    });
  }

  void forward(std::span<const std::int64_t> tokens) {
    const auto& l = s.layout;
    bias = make_score_bias<T>(c,
                              std::span<const T>(s.values.data() + std::max<std::int64_t>(l.score_bias, 0),
                                                 static_cast<std::size_t>(l.score_bias_size)),
                              seq_len);
    embed(tokens);
    for (std::int64_t layer = 0; layer < c.n_layers; ++layer) forward_layer(layer);
  }

  void forward_layer(std::int64_t layer) {
    const LayerOffsets& at_ = s.layout.in_layer();
    const T* p = s.values.data() + s.layout.layer_begin(layer);
    const std::int64_t d = c.d_model;
    for_each_block([&](std::int64_t first, std::int64_t n, T* normed) {
      norm_forward(s.norm(at_.norm1_weight, at_.norm1_bias, p), n, d, stream_at(2 * layer) + first * d, normed);
      T* to = slot(qkv, layer, c.qkv_width()) + first * c.qkv_width();
      linear(n, c.qkv_width(), d, normed, p + at_.qkv_weight, at(p, at_.qkv_bias), to);
      turn_rows(to, first, n, false);
    });
    T* heads = slot(attended, layer, c.attention_width());
    attention_forward(attention(layer), heads, slot(lse, layer, c.n_heads), attention_pool, threads);
    for_each_block([&](std::int64_t first, std::int64_t n, T* scratch) {
      T* normed = scratch;
      T* activated = normed + block_rows * d;
      T* raised = kept ? slot(up, layer, c.up_width()) + first * c.up_width() : activated + block_rows * c.d_ff;
      const T* before = stream_at(2 * layer) + first * d;
      T* between = stream_at(2 * layer + 1) + first * d;
      T* after = stream_at(2 * layer + 2) + first * d;
      if (kept) std::copy_n(before, n * d, between);
      linear(n, d, c.attention_width(), heads + first * c.attention_width(), p + at_.o_weight, at(p, at_.o_bias),
             between, true);
      norm_forward(s.norm(at_.norm2_weight, at_.norm2_bias, p), n, d, between, normed);
      linear(n, c.up_width(), d, normed, p + at_.up_weight, at(p, at_.up_bias), raised);
      activation_forward(c.mlp, n, c.d_ff, raised, activated);
      if (kept) std::copy_n(between, n * d, after);
      linear(n, d, c.d_ff, activated, p + at_.down_weight, at(p, at_.down_bias), after, true);
    });
  }

  // The logits of rows first .. first + n - 1, their normed input in `normed`.
  void head(std::int64_t first, std::int64_t n, T* normed, T* logits) {
    norm_forward(s.norm(s.layout.norm_weight, s.layout.norm_bias, s.values.data()), n, c.d_model,
                 stream_at(2 * c.n_layers) + first * c.d_model, normed);
    linear<T>(n, c.vocab_size, c.d_model, normed, s.values.data() + s.layout.head, nullptr, logits);
  }

  // Runs `run(first, n, sums, scratch)` on every block of rows; the blocks of a task share its sums of `size` numbers,
  // which then are added, task by task, to `gradient`.
  template <class Run>
  void accumulate(std::int64_t size, T* gradient, const Run& run) {
    parallel_for(n_tasks, threads, [&](std::int64_t task) {
      typename Pool<AlignedBuffer<T>>::Lease scratch(pool);
      if (scratch->size() == 0) *scratch = buffer<T>(scratch_size);
      T* sums = partials.data() + task * partial_size;
      std::fill_n(sums, size, T{0});
      const std::int64_t end = std::min((task + 1) * task_rows, rows);
      for (std::int64_t first = task * task_rows; first < end; first += block_rows) {
        run(first, std::min(block_rows, end - first), sums, scratch->data());
      }
    });
    constexpr std::int64_t piece = 1 << 14;
    parallel_for(ceil_div(size, piece), threads, [&](std::int64_t task) {
      const std::int64_t first = task * piece, n = std::min(piece, size - first);
      for (std::int64_t i = 0; i < n_tasks; ++i)
        add_bias(1, n, partials.data() + i * partial_size + first, gradient + first);
    });
  }

  void backward_head(std::span<const std::int64_t> targets, double scale, T* gradient) {
    const auto& l = s.layout;
    const std::int64_t d = c.d_model, table = c.vocab_size * d;
    std::vector<T> sums_of_all(static_cast<std::size_t>(table + 2 * d));
    accumulate(table + 2 * d, sums_of_all.data(), [&](std::int64_t first, std::int64_t n, T* sums, T* scratch) {
      T* normed = scratch;
      T* d_normed = normed + block_rows * d;
      T* logits = d_normed + block_rows * std::max(d, c.d_ff);
      head(first, n, normed, logits);
      for (std::int64_t r = 0; r < n; ++r) {
        const std::int64_t target = targets[static_cast<std::size_t>(first + r)];
        T* row = logits + r * c.vocab_size;
        if (target == no_target) {
          std::fill_n(row, c.vocab_size, T{0});
          losses[static_cast<std::size_t>(first + r)] = 0;
        } else {
          losses[static_cast<std::size_t>(first + r)] = cross_entropy(c.vocab_size, row, target, scale);
        }
      }
      linear_backward<T>(n, c.vocab_size, d, normed, s.values.data() + l.head, logits, sums, nullptr, d_normed);
      T* d_x = d_stream.data() + first * d;
      std::fill_n(d_x, n * d, T{0});
      norm_backward(s.norm(l.norm_weight, l.norm_bias, s.values.data()), n, d, stream_at(2 * c.n_layers) + first * d,
                    d_normed, d_x, sums + table, sums + table + d);
    });
    add_bias(1, table, sums_of_all.data(), gradient + l.head);
    add_bias(1, d, sums_of_all.data() + table, gradient + l.norm_weight);
    if (l.norm_bias >= 0) add_bias(1, d, sums_of_all.data() + table + d, gradient + l.norm_bias);
  }

  void backward_layer(std::int64_t layer, T* gradient) {
    const LayerOffsets& at_ = s.layout.in_layer();
    const T* p = s.values.data() + s.layout.layer_begin(layer);
    const std::int64_t d = c.d_model, width = c.attention_width();
    T* heads = slot(attended, layer, width);
    // The layer's first tensors are those of attention's input; those of its second half begin at o_weight.
    const std::int64_t split = at_.o_weight;
    accumulate(s.layout.layer_size() - split, gradient + split,
               [&](std::int64_t first, std::int64_t n, T* sums, T* scratch) {
                 T* g = sums - split;
                 T* normed = scratch;
                 T* d_normed = normed + block_rows * d;
                 T* activated = d_normed + block_rows * d;
                 T* d_activated = activated + block_rows * c.d_ff;
                 T* d_raised = d_activated + block_rows * widest;
                 const T* between = stream_at(2 * layer + 1) + first * d;
                 T* d_x = d_stream.data() + first * d;
                 const NormParameters<T> norm = s.norm(at_.norm2_weight, at_.norm2_bias, p);
                 norm_forward(norm, n, d, between, normed);
                 gemm<T>(Transpose::no, Transpose::no, n, c.d_ff, d, 1, d_x, d, p + at_.down_weight, c.d_ff, 0,
                         d_activated, c.d_ff);
                 activation_backward(c.mlp, n, c.d_ff, slot(up, layer, c.up_width()) + first * c.up_width(),
                                     d_activated, activated, d_raised);
                 gemm<T>(Transpose::yes, Transpose::no, d, c.d_ff, n, 1, d_x, d, activated, c.d_ff, 1,
                         g + at_.down_weight, c.d_ff);
                 if (c.biases) add_column_sums(n, d, d_x, g + at_.down_bias);
                 linear_backward(n, c.up_width(), d, normed, p + at_.up_weight, d_raised, g + at_.up_weight,
                                 at(g, at_.up_bias), d_normed);
                 norm_backward(norm, n, d, between, d_normed, d_x, g + at_.norm2_weight, at(g, at_.norm2_bias));
                 linear_backward(n, d, width, heads + first * width, p + at_.o_weight, d_x, g + at_.o_weight,
                                 at(g, at_.o_bias), d_attended.data() + first * width);
               });
    attention_backward(attention(layer), heads, slot(lse, layer, c.n_heads), d_attended.data(), d_qkv.data(),
                       bias_sums.empty() ? nullptr : bias_sums.data(), attention_pool, threads);
    accumulate(split, gradient, [&](std::int64_t first, std::int64_t n, T* g, T* scratch) {
      T* normed = scratch;
      T* d_normed = normed + block_rows * d;
      const T* before = stream_at(2 * layer) + first * d;
      T* d_rows = d_qkv.data() + first * c.qkv_width();
      turn_rows(d_rows, first, n, true);
      const NormParameters<T> norm = s.norm(at_.norm1_weight, at_.norm1_bias, p);
      norm_forward(norm, n, d, before, normed);
      linear_backward(n, c.qkv_width(), d, normed, p + at_.qkv_weight, d_rows, g + at_.qkv_weight, at(g, at_.qkv_bias),
                      d_normed);
      norm_backward(norm, n, d, before, d_normed, d_stream.data() + first * d, g + at_.norm1_weight,
                    at(g, at_.norm1_bias));
    });
  }

  void backward_embed(std::span<const std::int64_t> tokens, T* gradient) {
    const std::int64_t d = c.d_model;
    const T scale = c.encoding == PositionEncoding::sinusoidal ? static_cast<T>(std::sqrt(static_cast<double>(d))) : 1;
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* from = d_stream.data() + row * d;
      T* to = gradient + s.layout.embed + tokens[static_cast<std::size_t>(row)] * d;
      for (std::int64_t i = 0; i < d; ++i) to[i] += scale * from[i];
      if (s.layout.positions >= 0) add_bias(1, d, from, gradient + s.layout.positions + row % seq_len * d);
    }
  }

  double loss_and_gradient(std::span<const std::int64_t> tokens, std::span<const std::int64_t> targets,
                           std::span<T> gradient) {
    const auto& l = s.layout;
    std::fill(gradient.begin(), gradient.end(), T{0});
    const auto counted = std::ssize(targets) - std::count(targets.begin(), targets.end(), no_target);
    forward(tokens);
    bias_sums.assign(static_cast<std::size_t>(bias ? batch * c.n_heads * bias->sums_size() : 0), 0);
    const double scale = counted == 0 ? 0 : 1 / static_cast<double>(counted);
    backward_head(targets, scale, gradient.data());
    for (std::int64_t layer = c.n_layers - 1; layer >= 0; --layer) {
      backward_layer(layer, gradient.data() + l.layer_begin(layer));
    }
    backward_embed(tokens, gradient.data());
    if (!bias_sums.empty()) {
      bias->add_to_gradient(bias_sums, gradient.subspan(static_cast<std::size_t>(l.score_bias),
                                                        static_cast<std::size_t>(l.score_bias_size)));
    }
    return std::accumulate(losses.begin(), losses.end(), 0.0) * scale;
  }
};

namespace {

// The length of each text.
std::int64_t check_tokens(const TransformerConfig& c, std::span<const std::int64_t> tokens,
                          std::span<const std::int64_t> targets, std::int64_t batch) {
  const auto check = [](bool good, const std::string& sentence) {
    if (!good) throw std::invalid_argument("[transformer] " + sentence);
  };
  check(batch >= 1 && !tokens.empty() && std::ssize(tokens) % batch == 0,
        fmt::format("{} tokens do not make {} texts of one length.", tokens.size(), batch));
  check(targets.size() == tokens.size(),
        fmt::format("there are {} tokens but {} targets.", tokens.size(), targets.size()));
  for (std::int64_t token : tokens) {
    check(token >= 0 && token < c.vocab_size, fmt::format("token {} is not 0 .. {}.", token, c.vocab_size - 1));
  }
  for (std::int64_t target : targets) {
    check(target == no_target || (target >= 0 && target < c.vocab_size),
          fmt::format("target {} is not 0 .. {}.", target, c.vocab_size - 1));
  }
  const std::int64_t seq_len = std::ssize(tokens) / batch;
  if (c.encoding == PositionEncoding::learned) require_learned_positions(seq_len, c.max_position_embeddings);
  return seq_len;
}

}  // namespace

template <class T>
Transformer<T>::Transformer(const TransformerConfig& config) : state_(std::make_unique<State>(config)) {}

template <class T>
Transformer<T>::Transformer(const TransformerConfig& config, Generator& generator) : Transformer(config) {
  const std::vector<double> drawn = initial_parameters(config, generator);
  std::transform(drawn.begin(), drawn.end(), values().begin(), [](double value) { return static_cast<T>(value); });
}

template <class T>
Transformer<T>::~Transformer() = default;
template <class T>
Transformer<T>::Transformer(Transformer&&) noexcept = default;
template <class T>
Transformer<T>& Transformer<T>::operator=(Transformer&&) noexcept = default;

template <class T>
const TransformerConfig& Transformer<T>::config() const {
  return state_->c;
}
template <class T>
const ParameterLayout& Transformer<T>::layout() const {
  return state_->layout;
}
template <class T>
std::span<T> Transformer<T>::values() {
  return state_->values.span();
}
template <class T>
std::span<const T> Transformer<T>::values() const {
  return state_->values.span();
}
template <class T>
std::span<T> Transformer<T>::values(const std::string& name) {
  const ParameterSpec& spec = layout().spec(name);
  return values().subspan(static_cast<std::size_t>(spec.offset), static_cast<std::size_t>(spec.size));
}
template <class T>
std::span<const T> Transformer<T>::values(const std::string& name) const {
  const ParameterSpec& spec = layout().spec(name);
  return values().subspan(static_cast<std::size_t>(spec.offset), static_cast<std::size_t>(spec.size));
}

template <class T>
std::vector<T> Transformer<T>::logits(std::span<const std::int64_t> tokens, std::int64_t batch,
                                      const ForwardOptions& options) const {
  const std::int64_t seq_len = check_tokens(config(), tokens, tokens, batch);
  typename State::Pass pass(*state_, batch, seq_len, options, false);
  pass.forward(tokens);
  std::vector<T> logits(tokens.size() * static_cast<std::size_t>(config().vocab_size));
  pass.for_each_block([&](std::int64_t first, std::int64_t n, T* normed) {
    pass.head(first, n, normed, logits.data() + first * config().vocab_size);
  });
  return logits;
}

template <class T>
std::vector<TokenScore> Transformer<T>::score(std::span<const std::int64_t> tokens,
                                              std::span<const std::int64_t> targets, std::int64_t batch,
                                              const ForwardOptions& options) const {
  const std::int64_t seq_len = check_tokens(config(), tokens, targets, batch);
  typename State::Pass pass(*state_, batch, seq_len, options, false);
  pass.forward(tokens);
  std::vector<TokenScore> scores(tokens.size());
  const std::int64_t vocab = config().vocab_size;
  pass.for_each_block([&](std::int64_t first, std::int64_t n, T* normed) {
    T* logits = normed + block_rows * config().d_model;
    pass.head(first, n, normed, logits);
    for (std::int64_t r = 0; r < n; ++r, logits += vocab) {
      TokenScore& score = scores[static_cast<std::size_t>(first + r)];
      score.best = std::max_element(logits, logits + vocab) - logits;
      const std::int64_t target = targets[static_cast<std::size_t>(first + r)];
      if (target != no_target) score.nll = cross_entropy(vocab, logits, target, 0);
    }
  });
  return scores;
}

template <class T>
double Transformer<T>::loss_and_gradient(std::span<const std::int64_t> tokens, std::span<const std::int64_t> targets,
                                         std::int64_t batch, std::span<T> gradient, int threads) {
  const std::int64_t seq_len = check_tokens(config(), tokens, targets, batch);
  if (std::ssize(gradient) != layout().size()) {
    throw std::invalid_argument(
        fmt::format("[transformer] the gradient has {} values for {} parameters.", gradient.size(), layout().size()));
  }
  std::unique_ptr<typename State::Pass>& pass = state_->training;
  if (!pass || pass->batch != batch || pass->seq_len != seq_len) {
    pass = std::make_unique<typename State::Pass>(*state_, batch, seq_len, ForwardOptions{}, true);
  }
  pass->threads = threads;
  return pass->loss_and_gradient(tokens, targets, gradient);
}

template class Transformer<float>;
template class Transformer<double>;

}  // namespace poslab
