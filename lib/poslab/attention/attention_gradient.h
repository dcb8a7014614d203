// Causal attention of a batch with its gradient, for training: the forward pass keeps one number per query, the
// backward pass recomputes the weights from it tile by tile (Dao et al. 2022, arXiv:2205.14135, algorithms 1 and 4), so
// that memory grows with seq_len, never with its square.
#pragma once

#include <cstdint>

#include "poslab/attention/score_bias.h"
#include "poslab/core/aligned.h"
#include "poslab/core/pool.h"

namespace poslab {

// What one task packs and computes in; its contents mean nothing between calls.
template <class T>
struct AttentionScratch {
  AlignedBuffer<T> queries, keys, values, value_columns, key_rows, query_rows, d_out_panel, d_out_rows;
  AlignedBuffer<T> scores, d_scores, sums, d_keys, d_values;
};

// Query head h reads key-value head h / (n_heads / n_kv_heads). qkv rows hold the heads of q, then of k, then of v.
//
//   qkv  [batch, seq_len, (n_heads + 2 n_kv_heads) head_dim]
//   out  [batch, seq_len, n_heads head_dim]   softmax(q k^T / sqrt(head_dim) + bias) v over the visible keys
//   lse  [batch, n_heads, seq_len]            log of the sum of exp(score), in nats
template <class T>
struct AttentionBatch {
  std::int64_t batch = 1, seq_len = 0, n_heads = 1, n_kv_heads = 1, head_dim = 1;
  std::int64_t window = 0;             // a query sees its last so many keys, itself included; 0: all
  const ScoreBias<T>* bias = nullptr;  // absent: nothing
  const T* qkv = nullptr;
};

// Work is cut into tasks by batch entry, key-value head and, forward, runs of queries: results do not depend on
// `threads`.
template <class T>
void attention_forward(const AttentionBatch<T>& attention, T* out, T* lse, Pool<AttentionScratch<T>>& scratch,
                       int threads);

// d_qkv [as qkv] is overwritten; bias_sums [batch, n_heads, bias->sums_size()] are added to.
template <class T>
void attention_backward(const AttentionBatch<T>& attention, const T* out, const T* lse, const T* d_out, T* d_qkv,
                        double* bias_sums, Pool<AttentionScratch<T>>& scratch, int threads);

}  // namespace poslab
