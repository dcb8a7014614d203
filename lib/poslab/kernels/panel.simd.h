// The product of a few rows with a panel of two vectors, its sums in registers: the inner loop of matrix products and of
// attention; included by *.kernel.cpp alone.
#pragma once

#include <cstdint>

#include "poslab/kernels/exp2.simd.h"
#include "poslab/kernels/simd.h"

namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE {

// Columns of a panel: two vectors.
template <class T>
constexpr std::int64_t panel_width = 2 * lanes<T>;

// Rows whose sums stay in registers: 2 vectors each, of 32 registers or 16.
constexpr std::int64_t panel_rows = POSLAB_VECTOR_BYTES == 64 ? 12 : 6;

// sums[r] += sum over s < steps of a[r * row_stride + s * step_stride] * b[s, width], added up in order of s.
template <class T, class V, std::int64_t rows>
POSLAB_INLINE void multiply_panel(const T* a, std::int64_t row_stride, std::int64_t step_stride, const T* b,
                                  std::int64_t steps, V (&sums)[rows][2]) {
  for (std::int64_t s = 0; s < steps; ++s) {
    const V b0 = load<V>(b + s * panel_width<T>);
    const V b1 = load<V>(b + s * panel_width<T> + lanes<T>);
#pragma GCC unroll 12
    for (std::int64_t r = 0; r < rows; ++r) {
      const V x = splat(a[r * row_stride + s * step_stride]);
      sums[r][0] = multiply_add(x, b0, sums[r][0]);
      sums[r][1] = multiply_add(x, b1, sums[r][1]);
    }
  }
}

}  // namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE
