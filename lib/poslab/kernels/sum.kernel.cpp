#include "poslab/kernels/sum.kernel.h"

#include "poslab/kernels/simd.h"

namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE {

constexpr std::size_t partial_sums = 16, vectors = partial_sums / f64_lanes;

POSLAB_INLINE F64 in_f64(const double* from) { return load<F64>(from); }
POSLAB_INLINE F64 in_f64(const float* from) { return widen(load<HalfF32>(from)); }

// What is added for element j: itself, or a product.
template <class T>
struct Itself {
  const T* x;
  POSLAB_INLINE F64 at(const Itself& self, std::size_t j) { return in_f64(self.x + j); }
  POSLAB_INLINE double one(const Itself& self, std::size_t j) { return static_cast<double>(self.x[j]); }
};
template <class T>
struct Product {
  const T* x;
  const T* y;
  POSLAB_INLINE F64 at(const Product& self, std::size_t j) { return in_f64(self.x + j) * in_f64(self.y + j); }
  POSLAB_INLINE double one(const Product& self, std::size_t j) {
    return static_cast<double>(self.x[j]) * static_cast<double>(self.y[j]);
  }
};

template <class Terms>
POSLAB_INLINE double total(const Terms& terms, std::size_t n) {
  F64 sums[vectors] = {};
  std::size_t j = 0;
  for (; j + partial_sums <= n; j += partial_sums) {
    for (std::size_t v = 0; v < vectors; ++v) sums[v] += Terms::at(terms, j + v * f64_lanes);
  }
  double partial[partial_sums];
  for (std::size_t v = 0; v < vectors; ++v) store(partial + v * f64_lanes, sums[v]);
  for (std::size_t lane = 0; j < n; ++j, ++lane) partial[lane] += Terms::one(terms, j);
  for (std::size_t width = partial_sums / 2; width > 0; width /= 2) {
    for (std::size_t lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
  }
  return partial[0];
}

template <class T>
static double sum(const T* x, std::size_t n) {
  return total(Itself<T>{x}, n);
}

template <class T>
static double dot(const T* x, const T* y, std::size_t n) {
  return total(Product<T>{x, y}, n);
}

extern const SumKernels sum_kernels = {sum<double>, sum<float>, dot<double>, dot<float>};

}  // namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE
