#include "poslab/kernels/matmul.kernel.h"

#include "poslab/kernels/exp2.simd.h"
#include "poslab/kernels/panel.simd.h"
#include "poslab/kernels/simd.h"

namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE {
namespace {

constexpr auto lanes = static_cast<std::int64_t>(f32_lanes);
constexpr std::int64_t width = panel_width<float>;
constexpr std::int64_t tile_rows = panel_rows;

// `rows` sums of two vectors, from c (or 0) on: += a [rows, k] times one panel [k, width].
template <std::int64_t rows>
POSLAB_INLINE void tile(std::int64_t k, const float* a, std::int64_t row_stride, std::int64_t step_stride,
                        const float* panel, float* c, std::int64_t ldc, bool add) {
  F32 sums[rows][2];
#pragma GCC unroll 12
  for (std::int64_t r = 0; r < rows; ++r) {
    sums[r][0] = add ? load<F32>(c + r * ldc) : F32{};
    sums[r][1] = add ? load<F32>(c + r * ldc + lanes) : F32{};
  }
  multiply_panel(a, row_stride, step_stride, panel, k, sums);
#pragma GCC unroll 12
  for (std::int64_t r = 0; r < rows; ++r) {
    store(c + r * ldc, sums[r][0]);
    store(c + r * ldc + lanes, sums[r][1]);
  }
}

// The same for a panel whose columns from `n` on do not exist.
template <std::int64_t rows>
POSLAB_INLINE void narrow_tile(std::int64_t n, std::int64_t k, const float* a, std::int64_t row_stride,
                               std::int64_t step_stride, const float* panel, float* c, std::int64_t ldc, bool add) {
  float whole[rows * width] = {};
  if (add) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t j = 0; j < n; ++j) whole[r * width + j] = c[r * ldc + j];
    }
  }
  tile<rows>(k, a, row_stride, step_stride, panel, whole, width, add);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < n; ++j) c[r * ldc + j] = whole[r * width + j];
  }
}

template <std::int64_t rows>
POSLAB_INLINE void any_tile(std::int64_t n, std::int64_t k, const float* a, std::int64_t row_stride,
                            std::int64_t step_stride, const float* panel, float* c, std::int64_t ldc, bool add) {
  if (n >= width) {
    tile<rows>(k, a, row_stride, step_stride, panel, c, ldc, add);
  } else {
    narrow_tile<rows>(n, k, a, row_stride, step_stride, panel, c, ldc, add);
  }
}

// m rows of one panel's columns; n: how many of them there are.
template <bool by_column>
POSLAB_INLINE void strip(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t stride,
                         const float* panel, float* c, std::int64_t ldc, bool add) {
  const std::int64_t row_stride = by_column ? 1 : stride, step_stride = by_column ? stride : 1;
  std::int64_t i = 0;
  for (; i + tile_rows <= m; i += tile_rows) {
    any_tile<tile_rows>(n, k, a + i * row_stride, row_stride, step_stride, panel, c + i * ldc, ldc, add);
  }
  for (; i + 4 <= m; i += 4) {
    any_tile<4>(n, k, a + i * row_stride, row_stride, step_stride, panel, c + i * ldc, ldc, add);
  }
  for (; i < m; ++i) any_tile<1>(n, k, a + i * row_stride, row_stride, step_stride, panel, c + i * ldc, ldc, add);
}

void pack(std::int64_t k, std::int64_t n, const float* from, std::int64_t row_stride, std::int64_t column_stride,
          float* panels) {
  for (std::int64_t first = 0; first < n; first += width, panels += k * width) {
    const std::int64_t columns = n - first < width ? n - first : width;
    const float* corner = from + first * column_stride;
    if (column_stride == 1 && columns == width) {
      for (std::int64_t s = 0; s < k; ++s) {
        store(panels + s * width, load<F32>(corner + s * row_stride));
        store(panels + s * width + lanes, load<F32>(corner + s * row_stride + lanes));
      }
      continue;
    }
    for (std::int64_t s = 0; s < k; ++s) {
      for (std::int64_t j = 0; j < columns; ++j) {
        panels[s * width + j] = corner[s * row_stride + j * column_stride];
      }
      for (std::int64_t j = columns; j < width; ++j) panels[s * width + j] = 0;
    }
  }
}

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda, const float* panels,
              float* c, std::int64_t ldc, bool add) {
  // A panel's part of so many steps stays in the first cache while the rows pass by.
  constexpr std::int64_t most_steps = 256;
  for (std::int64_t j = 0; j < n; j += width) {
    for (std::int64_t s = 0; s < k; s += most_steps) {
      const std::int64_t steps = k - s < most_steps ? k - s : most_steps;
      strip<false>(m, n - j, steps, a + s, lda, panels + j * k + s * width, c + j, ldc, add || s > 0);
    }
  }
}

void add_transposed(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda, const float* b,
                    std::int64_t ldb, float* c, std::int64_t ldc, float* scratch) {
  float* panels = scratch + most_transposed_steps * matmul_rows;
  for (std::int64_t first = 0; first < k; first += most_transposed_steps) {
    const std::int64_t steps = k - first < most_transposed_steps ? k - first : most_transposed_steps;
    pack(steps, n, b + first * ldb, ldb, 1, panels);
    for (std::int64_t i = 0; i < m; i += tile_rows) {
      const std::int64_t rows = m - i < tile_rows ? m - i : tile_rows;
      // A column of `a` spreads over lines that fall into few sets of the cache: copied once for all panels.
      const float* from = a + first * lda + i;
      for (std::int64_t s = 0; s < steps; ++s) {
        if (rows == tile_rows) {
          std::memcpy(scratch + s * tile_rows, from + s * lda, sizeof(float) * tile_rows);
        } else {
          for (std::int64_t r = 0; r < rows; ++r) scratch[s * tile_rows + r] = from[s * lda + r];
        }
      }
      for (std::int64_t j = 0; j < n; j += width) {
        strip<true>(rows, n - j, steps, scratch, tile_rows, panels + j * steps, c + i * ldc + j, ldc, true);
      }
    }
  }
}

}  // namespace

extern const MatmulKernels matmul_kernels = {width, pack, multiply, add_transposed};

}  // namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE
