// What a report shows of a matrix that is computed row by row: its bytes for --save-npy and a small heat map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "poslab/core/element_type.h"
#include "poslab/report/report.h"

namespace poslab {

struct RowMatrix {
  std::int64_t rows = 0, columns = 0;
  // Rows first, first + 1, ... into out, whose size is a multiple of columns; called from several threads.
  std::function<void(std::int64_t first, std::span<double> out)> fill;
  // Optional, faster: `count` rows as elements of `dtype`. Off by less than f64 rounds the angles of waves, so that the
  // last bit of a value near 0 may differ from that of `fill` narrowed.
  std::function<void(std::int64_t first, std::int64_t count, DType dtype, std::byte* out)> fill_narrowed = nullptr;
};

// One row narrowed to `dtype` and widened again, the same values as in stream_tensor's.
void narrowed_row(const RowMatrix& matrix, DType dtype, std::int64_t row, std::span<double> out);

// The matrix as a tensor [rows, columns], narrowed once and computed on up to `threads` threads.
TensorSource stream_tensor(RowMatrix matrix, DType dtype, int threads);

// Rows across and columns down, at most 64 x 32 of them: every k-th one of what is larger. Titles stay with the caller.
Picture sampled_heatmap(const RowMatrix& matrix);

}  // namespace poslab
