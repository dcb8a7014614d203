// RoPE's rotation of rows in f32, bf16 or f16, with arithmetic in f32.
#pragma once

#include <cstddef>

#include "poslab/kernels/isa.h"
#include "poslab/kernels/storage.h"

namespace poslab {

// Rows of `width` channels whose first 2 n_pairs are rotated; the channels after them are copied. In pair (a, b), with
// c and s of the row's position,
//   a' = a c - b s        inverse:  a' = a c + b s
//   b' = a s + b c                  b' = b c - a s
struct RotationRows {
  Storage type = Storage::f32;
  bool half = false;     // pairs (i, i + n_pairs), else (2 i, 2 i + 1)
  bool inverse = false;  // by the negative angle: the backward pass
  const void* x = nullptr;
  void* out = nullptr;                       // x itself with x_stride = out_stride, or memory apart from it
  std::size_t x_stride = 0, out_stride = 0;  // elements from one row to the next
  std::size_t rows = 0, n_pairs = 0, width = 0;
  const float* cosines = nullptr;  // [rows, n_pairs]
  const float* sines = nullptr;
  std::size_t table_stride = 0;  // elements from one row of cosines (and sines) to the next
  bool stream = false;           // past the caches, where alignment allows
};

// Products and sums are rounded to f32 one by one and the result once more to `type`: the same bits on every
// instruction set.
void rotate_rows(const RotationRows& rows, Isa isa = active_isa());

}  // namespace poslab
