#include "poslab/report/matrix_views.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "poslab/core/narrow.h"
#include "poslab/core/threads.h"

namespace poslab {
namespace {

constexpr std::int64_t max_width = 64, max_height = 32;
// Whole multiples of the runs of 64 rows that fast tables are made in.
constexpr std::int64_t values_per_task = 1 << 14, rows_per_run = 64;

std::int64_t sampled(std::int64_t index, std::int64_t shown, std::int64_t all) {
  return static_cast<std::int64_t>(static_cast<double>(index) * static_cast<double>(all) / static_cast<double>(shown));
}

double widened(DType dtype, const std::byte* element) {
  if (dtype == DType::f32) {
    float value;
    std::memcpy(&value, element, sizeof value);
    return static_cast<double>(value);
  }
  std::uint16_t bits;
  std::memcpy(&bits, element, sizeof bits);
  return static_cast<double>(dtype == DType::bf16 ? bf16_from_bits(bits) : f16_from_bits(bits));
}

}  // namespace

void narrowed_row(const RowMatrix& matrix, DType dtype, std::int64_t row, std::span<double> out) {
  if (!matrix.fill_narrowed || dtype == DType::f64) {
    matrix.fill(row, out);
    for (double& value : out) value = round_to(dtype, value);
    return;
  }
  const std::size_t width = bytes_per_element(dtype);
  std::vector<std::byte> bytes(out.size() * width);
  matrix.fill_narrowed(row, 1, dtype, bytes.data());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = widened(dtype, bytes.data() + i * width);
}

TensorSource stream_tensor(RowMatrix matrix, DType dtype, int threads) {
  TensorSource tensor;
  tensor.dtype = dtype;
  tensor.shape = {matrix.rows, matrix.columns};
  tensor.fill = [matrix = std::move(matrix), dtype, threads](std::int64_t first, std::int64_t count, std::byte* out) {
    const std::int64_t runs = std::max<std::int64_t>(1, values_per_task / matrix.columns / rows_per_run);
    const std::int64_t rows_per_task =
        matrix.fill_narrowed ? runs * rows_per_run : std::max<std::int64_t>(1, values_per_task / matrix.columns);
    const std::size_t row_bytes = static_cast<std::size_t>(matrix.columns) * bytes_per_element(dtype);
    parallel_for((count + rows_per_task - 1) / rows_per_task, threads, [&](std::int64_t task) {
      const std::int64_t begin = task * rows_per_task;
      const std::int64_t rows = std::min(rows_per_task, count - begin);
      std::byte* to = out + static_cast<std::size_t>(begin) * row_bytes;
      if (matrix.fill_narrowed) return matrix.fill_narrowed(first + begin, rows, dtype, to);
      std::vector<double> values(static_cast<std::size_t>(rows * matrix.columns));
      matrix.fill(first + begin, values);
      narrow_to_bytes(dtype, values, to);
    });
  };
  return tensor;
}

Picture sampled_heatmap(const RowMatrix& matrix) {
  Picture picture;
  picture.kind = PictureKind::heatmap;
  picture.width = std::min(matrix.rows, max_width);
  picture.height = std::min(matrix.columns, max_height);
  picture.values.resize(static_cast<std::size_t>(picture.width * picture.height));
  std::vector<double> row(static_cast<std::size_t>(matrix.columns));
  for (std::int64_t x = 0; x < picture.width; ++x) {
    matrix.fill(sampled(x, picture.width, matrix.rows), row);
    for (std::int64_t y = 0; y < picture.height; ++y) {
      picture.values[static_cast<std::size_t>(y * picture.width + x)] =
          row[static_cast<std::size_t>(sampled(y, picture.height, matrix.columns))];
    }
  }
  return picture;
}

}  // namespace poslab
