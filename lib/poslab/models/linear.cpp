#include "poslab/models/linear.h"

#include <type_traits>

#include "poslab/kernels/blas.h"
#include "poslab/kernels/isa.h"
#include "poslab/kernels/matmul.kernel.h"
#include "poslab/models/pointwise.h"

namespace poslab {
namespace {

const kernels::MatmulKernels& kernel() {
  static const kernels::MatmulKernels& chosen = POSLAB_CHOOSE_ISA(active_isa(), matmul_kernels);
  return chosen;
}

// A weight beyond this passes through the caches once per call in any case; a second copy of it gains nothing.
constexpr std::int64_t most_packed = std::int64_t{1} << 23;

template <class T>
bool is_packed(std::int64_t out, std::int64_t in) {
  return std::is_same_v<T, float> && out <= most_packed / in;
}

// [k, n] as panels; element (s, j) is from[s * row_stride + j * column_stride].
template <class T>
AlignedBuffer<T> packed(std::int64_t k, std::int64_t n, const T* from, std::int64_t row_stride,
                        std::int64_t column_stride) {
  AlignedBuffer<T> panels;
  if constexpr (std::is_same_v<T, float>) {
    const std::int64_t width = kernel().width;
    panels = AlignedBuffer<T>(static_cast<std::size_t>((n + width - 1) / width * width * k));
    kernel().pack(k, n, from, row_stride, column_stride, panels.data());
  }
  return panels;
}

}  // namespace

template <class T>
LinearMap<T>::LinearMap(std::int64_t out, std::int64_t in, const T* weight, const T* bias)
    : out_(out), in_(in), weight_(weight), bias_(bias) {
  if (is_packed<T>(out, in)) panels_ = packed(in, out, weight, 1, in);
}

template <class T>
void LinearMap<T>::operator()(std::int64_t rows, const T* x, T* y, bool add) const {
  if constexpr (std::is_same_v<T, float>) {
    if (panels_.size() > 0) kernel().multiply(rows, out_, in_, x, in_, panels_.data(), y, out_, add);
  }
  if (panels_.size() == 0) {
    gemm<T>(Transpose::no, Transpose::yes, rows, out_, in_, 1, x, in_, weight_, in_, add ? 1 : 0, y, out_);
  }
  if (bias_) add_bias(rows, out_, bias_, y);
}

template <class T>
LinearGradient<T>::LinearGradient(std::int64_t out, std::int64_t in, const T* weight)
    : out_(out), in_(in), weight_(weight) {
  if (is_packed<T>(out, in)) panels_ = packed(out, in, weight, in, 1);
}

template <class T>
void LinearGradient<T>::input(std::int64_t rows, const T* d_y, T* d_x) const {
  if constexpr (std::is_same_v<T, float>) {
    if (panels_.size() > 0) return kernel().multiply(rows, in_, out_, d_y, out_, panels_.data(), d_x, in_, false);
  }
  gemm<T>(Transpose::no, Transpose::no, rows, in_, out_, 1, d_y, out_, weight_, in_, 0, d_x, in_);
}

template <class T>
void LinearGradient<T>::parameters(std::int64_t rows, const T* x, const T* d_y, T* d_weight, T* d_bias,
                                   T* scratch) const {
  if constexpr (std::is_same_v<T, float>) {
    kernel().add_transposed(out_, in_, rows, d_y, out_, x, in_, d_weight, in_, scratch);
  } else {
    static_cast<void>(scratch);
    gemm<T>(Transpose::yes, Transpose::no, out_, in_, rows, 1, d_y, out_, x, in_, 1, d_weight, in_);
  }
  if (d_bias) add_column_sums(rows, out_, d_y, d_bias);
}

std::int64_t linear_scratch(std::int64_t in) { return kernels::matmul_scratch(in); }

template class LinearMap<float>;
template class LinearMap<double>;
template class LinearGradient<float>;
template class LinearGradient<double>;

}  // namespace poslab
