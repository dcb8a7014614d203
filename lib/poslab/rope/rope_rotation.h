// RoPE's turn of whole tensors at the speed of memory: f32, bf16 or f16, forward and backward, on several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "poslab/core/aligned.h"
#include "poslab/core/element_type.h"
#include "poslab/rope/rope.h"

namespace poslab {

// cos and sin of position * inv_freq times attention_factor, taken in double and narrowed to f32; shared by all heads.
struct RopeTable {
  std::int64_t seq_len = 0, n_pairs = 0;
  AlignedBuffer<float> cosines, sines;  // [seq_len, n_pairs]
};

//   positions  [seq_len]         tokens; fractions allowed; negative turns backwards
//   inv_freq   [rotary_dim / 2]  radians per token
RopeTable rope_table(std::span<const double> positions, std::span<const double> inv_freq, double attention_factor = 1,
                     int threads = 1);

struct RopeTensor {
  std::int64_t n_heads = 1, seq_len = 0, head_dim = 0;
  DType dtype = DType::f32;  // not f64: apply_rope<double> serves that
  RopeLayout layout = RopeLayout::half;
  bool inverse = false;  // turns back: the gradient with respect to x
};

//   x    [n_heads, seq_len, head_dim]  elements of dtype
//   out  [n_heads, seq_len, head_dim]  x itself or memory apart from it; channels from rotary_dim on are copied
//
// Products and sums are rounded to f32 one by one, and the result once more to dtype. With a table, or with the angles
// made on the fly, which gives the same bits. Results do not depend on `threads` nor on the instruction set.
// Throws std::invalid_argument "[rotate] ..." when shapes disagree or dtype is f64.
void rotate(const RopeTensor& shape, std::span<const std::byte> x, std::span<std::byte> out, const RopeTable& table,
            int threads);
void rotate(const RopeTensor& shape, std::span<const std::byte> x, std::span<std::byte> out,
            std::span<const double> positions, std::span<const double> inv_freq, double attention_factor, int threads);

}  // namespace poslab
