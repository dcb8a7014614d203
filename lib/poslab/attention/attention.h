// Multi-head attention, softmax(q k^T * score_scale + bias) v (Vaswani et al. 2017, arXiv:1706.03762, eq. 1), with
// grouped key-value heads (Ainslie et al. 2023, arXiv:2305.13245) and a hook for each positional encoding.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "poslab/attention/mask.h"
#include "poslab/attention/score_bias.h"
#include "poslab/kernels/isa.h"
#include "poslab/rope/rope.h"

namespace poslab {

// Queries and keys rotate by their positions.
struct AttentionRotation {
  std::vector<double> inv_freq;  // [rotary_dim / 2], radians per token
  RopeLayout layout = RopeLayout::interleaved;
  double attention_factor = 1;
  PairGrowth growth = {};
};

struct AttentionShape {
  std::int64_t n_heads = 1, n_kv_heads = 1;  // query head h reads key-value head h / (n_heads / n_kv_heads)
  std::int64_t seq_q = 0, seq_k = 0, head_dim = 0;
};

struct AttentionOptions {
  // What a method does inside attention; vectors added to the tokens come before it.
  std::optional<AttentionRotation> rotation;
  std::shared_ptr<const PositionBias> bias;  // absent: nothing is added to the scores
  std::vector<double> query_positions;       // [seq_q], tokens; empty: seq_k - seq_q, ..., seq_k - 1
  std::vector<double> key_positions;         // [seq_k], tokens; empty: 0, ..., seq_k - 1
  std::vector<KeyRange> visible;             // [seq_q]; empty: every query sees every key
  std::optional<double> score_scale;         // absent: 1 / sqrt(head_dim)
  std::optional<Isa> isa;                    // absent: the active one; tests compare instruction sets
};

// An array [n_heads, seq_len, head_dim] seen through strides in elements; the channels of a head lie side by side.
template <class T>
struct HeadView {
  T* data = nullptr;
  std::int64_t head_stride = 0, row_stride = 0;

  T* row(std::int64_t head, std::int64_t position) const { return data + head * head_stride + position * row_stride; }
  operator HeadView<const T>() const { return {data, head_stride, row_stride}; }
};

// The views of an array stored [n_heads, seq_len, head_dim].
template <class T>
HeadView<T> heads_first(T* data, std::int64_t seq_len, std::int64_t head_dim) {
  return {data, seq_len * head_dim, head_dim};
}

//   q    [n_heads, seq_q, head_dim]
//   k    [n_kv_heads, seq_k, head_dim]
//   v    [n_kv_heads, seq_k, head_dim]
//   out  [n_heads, seq_q, head_dim]     0 where a query sees no key
//
// Memory beside these grows with seq_len, never with its square: queries and keys meet in tiles, and the softmax is
// taken as a stream. Results do not depend on `threads`; f64 agrees with attention_reference to 1e-12. A weight below
// the smallest normal number counts as 0, and what it would multiply is not looked at.
// Throws std::invalid_argument "[attention] ..." when sizes disagree.
template <class T>
void attention(const AttentionShape& shape, const AttentionOptions& options, HeadView<const T> q, HeadView<const T> k,
               HeadView<const T> v, HeadView<T> out, int threads);

// The plain formula in double, one score after another, for tests and for those who look at scores and weights.
// Memory grows with seq_q * seq_k.
struct AttentionTrace {
  std::vector<double> scores;   // [n_heads, seq_q, seq_k] with bias; -infinity where hidden
  std::vector<double> weights;  // [n_heads, seq_q, seq_k]
  std::vector<double> out;      // [n_heads, seq_q, head_dim]
};
AttentionTrace attention_reference(const AttentionShape& shape, const AttentionOptions& options,
                                   HeadView<const double> q, HeadView<const double> k, HeadView<const double> v);

}  // namespace poslab
