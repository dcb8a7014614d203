// A linear map on rows of activations and its gradient. In f32 the weight is packed once for all rows
// (kernels/matmul.kernel.h); f64, for checks, and weights too large for the caches go through BLAS. No result depends
// on how the rows are cut into calls.
#pragma once

#include <cstdint>

#include "poslab/core/aligned.h"

namespace poslab {

template <class T>
class LinearMap {
 public:
  // weight [out, in], bias [out] or null; both must live as long as the map.
  LinearMap(std::int64_t out, std::int64_t in, const T* weight, const T* bias = nullptr);

  // y [rows, out] = x [rows, in] weight^T + bias; added to y where `add`.
  void operator()(std::int64_t rows, const T* x, T* y, bool add = false) const;

 private:
  std::int64_t out_, in_;
  const T *weight_, *bias_;
  AlignedBuffer<T> panels_;  // empty: BLAS reads weight_
};

template <class T>
class LinearGradient {
 public:
  LinearGradient(std::int64_t out, std::int64_t in, const T* weight);

  // d_x [rows, in] = d_y [rows, out] weight
  void input(std::int64_t rows, const T* d_y, T* d_x) const;
  // d_weight [out, in] += d_y^T x; d_bias [out], where not null, += the rows of d_y. scratch: linear_scratch(in).
  void parameters(std::int64_t rows, const T* x, const T* d_y, T* d_weight, T* d_bias, T* scratch) const;

 private:
  std::int64_t out_, in_;
  const T* weight_;
  AlignedBuffer<T> panels_;
};

// Numbers that LinearGradient::parameters writes to.
std::int64_t linear_scratch(std::int64_t in);

}  // namespace poslab
