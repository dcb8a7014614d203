// One run of a transformer over a batch, forward; models/training_pass.h adds the backward pass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "poslab/attention/attention_gradient.h"
#include "poslab/attention/score_bias.h"
#include "poslab/core/aligned.h"
#include "poslab/core/pool.h"
#include "poslab/core/rounding.h"
#include "poslab/core/threads.h"
#include "poslab/models/linear.h"
#include "poslab/models/parameters.h"
#include "poslab/models/pointwise.h"
#include "poslab/models/transformer.h"
#include "poslab/models/turns.h"

namespace poslab {

// Rows that pass through a layer's products together, while they stand in the caches.
inline constexpr std::int64_t block_rows = 128;

template <class T>
AlignedBuffer<T> buffer(std::int64_t size) {
  return AlignedBuffer<T>(static_cast<std::size_t>(size));
}

// The tensor at one of the layout's offsets, or null where the model has none.
template <class T>
T* tensor_at(T* base, std::int64_t offset) {
  return offset < 0 ? nullptr : base + offset;
}

template <class T>
struct TransformerState {
  explicit TransformerState(const TransformerConfig& config)
      : c(config), layout(config), values(static_cast<std::size_t>(layout.size()), T{0}) {}

  TransformerConfig c;
  ParameterLayout layout;
  AlignedBuffer<T> values;
};

// Activations, and what the positions bring in. Where `keeping` every layer keeps its own activations, for the
// backward pass; otherwise all layers share one layer's.
template <class T>
class TransformerPass {
 public:
  TransformerPass(const TransformerState<T>& state, std::int64_t batch_size, std::int64_t length,
                  const ForwardOptions& options, bool keeping = false);

  void forward(std::span<const std::int64_t> tokens);
  // Runs `run(first, n, scratch)` on every block of rows.
  template <class Run>
  void for_each_block(const Run& run) {
    parallel_for(ceil_div(rows, block_rows), threads, [&](std::int64_t task) {
      typename Pool<AlignedBuffer<T>>::Lease scratch(pool);
      if (scratch->size() == 0) *scratch = buffer<T>(scratch_size);
      run(task * block_rows, std::min(block_rows, rows - task * block_rows), scratch->data());
    });
  }

  // What the head sees of rows first .. first + n - 1.
  void last_norm(std::int64_t first, std::int64_t n, T* normed);
  // Before head(), at each run: its weight may have changed.
  void pack_head();
  // The logits of rows first .. first + n - 1; their normed input is left in `normed`.
  void head(std::int64_t first, std::int64_t n, T* normed, T* logits);

  const std::int64_t batch, seq_len, rows;
  const RopeLayout layout;
  int threads;
  const std::function<void(double)> progress;

 protected:
  NormParameters<T> norm(std::int64_t gain, std::int64_t shift, const T* base) const {
    return {c.norm, c.norm_eps, tensor_at(base, gain), tensor_at(base, shift)};
  }
  T* stream_at(std::int64_t half) { return stream.data() + (kept ? half * rows * c.d_model : 0); }
  T* slot(AlignedBuffer<T>& of, std::int64_t layer, std::int64_t width) {
    return of.data() + (kept ? layer * rows * width : 0);
  }
  AttentionBatch<T> attention(std::int64_t layer) {
    const std::int64_t seen = c.is_local(layer) ? local_window : window;
    return {batch, seq_len, c.n_heads, c.n_kv_heads, c.head_dim, seen, bias.get(), slot(qkv, layer, c.qkv_width())};
  }
  // Of the inputs of linear maps.
  std::int64_t widest_in() const { return std::max({c.d_model, c.d_ff, c.attention_width()}); }
  // The end of a task's scratch, for gradients of weights.
  T* gradient_scratch(T* scratch) const { return scratch + scratch_size - linear_scratch(widest_in()); }
  // Turns the queries and keys of rows first .. first + n - 1, in place.
  void turn_rows(std::int64_t layer, T* qkv_rows, std::int64_t first, std::int64_t n, bool inverse);

  const TransformerState<T>& s;
  const TransformerConfig& c;
  const bool kept;
  const std::int64_t widest;
  const std::int64_t scratch_size;  // of one task
  Pool<AlignedBuffer<T>> pool;
  Pool<AttentionScratch<T>> attention_pool;
  std::int64_t window = 0, local_window = 0;
  Turns<T> turns, local_turns;
  AlignedBuffer<T> fixed_input;        // [seq_len, d_model], of a method that adds what it does not learn
  std::unique_ptr<ScoreBias<T>> bias;  // made anew at each run: its parameters may have changed
  std::optional<LinearMap<T>> to_logits;
  AlignedBuffer<T> stream;                  // [2 n_layers + 1, rows, d_model]: before each half of a layer, at the end
  AlignedBuffer<T> qkv, attended, up, lse;  // [n_layers, ...]

  const T* input_rows() const {
    return c.encoding->learns_input() ? s.values.data() + s.layout.method
           : fixed_input.size() > 0   ? fixed_input.data()
                                      : nullptr;
  }

 private:
  void embed(std::span<const std::int64_t> tokens);
  void adjust_rows(std::int64_t layer, T* qkv_rows, std::int64_t n);
  void forward_layer(std::int64_t layer);
};

}  // namespace poslab
