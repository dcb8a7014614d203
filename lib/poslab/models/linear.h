// A linear map on rows of activations, forward and backward.
#pragma once

#include <cstdint>

#include "poslab/core/blas.h"
#include "poslab/models/pointwise.h"

namespace poslab {

// y [rows, out] = x [rows, in] W^T (+ bias), W [out, in]; added to y instead where `add`.
template <class T>
void linear(std::int64_t rows, std::int64_t out, std::int64_t in, const T* x, const T* weight, const T* bias, T* y,
            bool add = false) {
  gemm<T>(Transpose::no, Transpose::yes, rows, out, in, 1, x, in, weight, in, add ? 1 : 0, y, out);
  if (bias) add_bias(rows, out, bias, y);
}

// d_weight += d_y^T x, d_bias += the rows of d_y, and d_x = d_y W.
template <class T>
void linear_backward(std::int64_t rows, std::int64_t out, std::int64_t in, const T* x, const T* weight, const T* d_y,
                     T* d_weight, T* d_bias, T* d_x) {
  gemm<T>(Transpose::yes, Transpose::no, out, in, rows, 1, d_y, out, x, in, 1, d_weight, in);
  if (d_bias) add_column_sums(rows, out, d_y, d_bias);
  gemm<T>(Transpose::no, Transpose::no, rows, in, out, 1, d_y, out, weight, in, 0, d_x, in);
}

}  // namespace poslab
