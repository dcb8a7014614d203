// The inner loops of attention: one panel of queries against one tile of keys and values, all packed by the caller.
// Scores, their softmax as a stream (online softmax, Milakov and Gimelshein 2018, arXiv:1805.02867) and the weighted
// sum of values, while everything stands in the caches. Scores come in units of log2(e): weights are powers of two.
#pragma once

#include <cstdint>

#include "poslab/kernels/per_isa.h"

namespace poslab::kernels {

// Queries of a panel.
inline constexpr std::int64_t attention_rows = 12;
// Keys of a tile: the scores of a panel against it fill 12 KB.
template <class T>
inline constexpr std::int64_t attention_tile_keys = static_cast<std::int64_t>(1024 / sizeof(T));

// Memory orders, with width = AttentionKernel::width and tile_keys = attention_tile_keys<T>:
template <class T>
struct AttentionPanel {
  std::int64_t head_dim;
  std::int64_t n_blocks;            // blocks of `width` channels that hold the values
  std::int64_t first, last;         // keys first .. last - 1 of the tile are seen by some query of the panel
  const std::int64_t *begin, *end;  // [rows] each query sees keys begin .. end - 1 of the tile; may reach beyond it
  const T* queries;                 // [head_dim, rows], scaled
  const T* keys;                    // [tile_keys / width, head_dim, width]
  const T* values;                  // [n_blocks, tile_keys, width]
  const T* const* bias;             // [rows] what each row's scores receive, by key of the tile; null = nothing
  T* scores;                        // [rows, tile_keys] scratch
  T* row_max;                       // [rows] largest score so far, lowest() at first
  T* row_sum;                       // [rows, width / 2] sums of the weights so far, to be added up at the end
  T* sums;                          // [n_blocks, rows, width] weighted values so far
};

template <class T>
struct AttentionKernel {
  std::int64_t width;  // two vectors
  T least;             // a score this far below its row's largest weighs exactly 0
  void (*panel)(const AttentionPanel<T>&);
};

struct AttentionKernels {
  AttentionKernel<float> f32;
  AttentionKernel<double> f64;
};
POSLAB_DECLARE_PER_ISA(AttentionKernels, attention_kernels)

}  // namespace poslab::kernels
