// The owner of poslab's arrays: xtensor's containers, row by row. Include it where arrays are owned; loops and headers
// that many files include take spans (xtensor compiles slowly, and its views run several times slower than plain
// loops).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>
#include <xtensor/xtensor.hpp>

#include "poslab/core/aligned.h"

namespace poslab {

template <class T, std::size_t Rank>
using Tensor = xt::xtensor<T, Rank>;

// A tensor of this shape, its values not initialised: make_tensor<float>(seq_len, d_model).
template <class T, class... Sizes>
Tensor<T, sizeof...(Sizes)> make_tensor(Sizes... sizes) {
  auto tensor = Tensor<T, sizeof...(Sizes)>::from_shape({static_cast<std::size_t>(sizes)...});
  prefer_huge_pages(tensor.data(), tensor.size() * sizeof(T));
  return tensor;
}

// All values, row by row.
template <class T, std::size_t Rank>
std::span<T> flat(Tensor<T, Rank>& tensor) {
  return {tensor.data(), tensor.size()};
}
template <class T, std::size_t Rank>
std::span<const T> flat(const Tensor<T, Rank>& tensor) {
  return {tensor.data(), tensor.size()};
}

// Row i of a matrix.
template <class T>
std::span<T> row(Tensor<T, 2>& matrix, std::int64_t i) {
  const std::size_t columns = matrix.shape(1);
  return {matrix.data() + static_cast<std::size_t>(i) * columns, columns};
}
template <class T>
std::span<const T> row(const Tensor<T, 2>& matrix, std::int64_t i) {
  const std::size_t columns = matrix.shape(1);
  return {matrix.data() + static_cast<std::size_t>(i) * columns, columns};
}

// A size of a tensor as poslab counts.
template <class Container>
std::int64_t extent(const Container& tensor, std::size_t axis) {
  return static_cast<std::int64_t>(tensor.shape(axis));
}

}  // namespace poslab
