// Matrix products of a layer: many rows against one weight, which is packed once for all of them. At these sizes (an
// inner dimension of some hundred) a library that packs in every call spends a quarter of its time on it.
#pragma once

#include <cstdint>

#include "poslab/kernels/per_isa.h"

namespace poslab::kernels {

// Rows of a tile of the result.
inline constexpr std::int64_t matmul_rows = 12;

// W = width: columns of a panel. Panels of a matrix [k, n] are [ceil(n / W), k, W], 0 in columns from n on. Every sum
// is one chain of multiply-adds in the order of k, so that no result depends on how the rows are cut into calls.
struct MatmulKernels {
  std::int64_t width;

  // The element in row s and column j is from[s * row_stride + j * column_stride].
  void (*pack)(std::int64_t k, std::int64_t n, const float* from, std::int64_t row_stride, std::int64_t column_stride,
               float* panels);

  // c [m, n] = a [m, k] b, or c += a b; rows lda and ldc apart, b as panels.
  void (*multiply)(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda,
                   const float* panels, float* c, std::int64_t ldc, bool add);

  // c [m, n] += a^T b, a [k, m], b [k, n]; scratch of matmul_scratch(n) numbers.
  void (*add_transposed)(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda,
                         const float* b, std::int64_t ldb, float* c, std::int64_t ldc, float* scratch);
};

// Steps of a transposed product whose panel and strip stand in the first cache.
inline constexpr std::int64_t most_transposed_steps = 128;
// Enough for panels of any instruction set and for one strip of the transposed matrix.
constexpr std::int64_t matmul_scratch(std::int64_t n) {
  return most_transposed_steps * ((n + 31) / 32 * 32 + matmul_rows);
}

POSLAB_DECLARE_PER_ISA(MatmulKernels, matmul_kernels)

}  // namespace poslab::kernels
