// The owner of poslab's arrays: xtensor's fixed-rank tensor, row by row. Include it where arrays are owned; loops and
// headers that many files include take spans (xtensor compiles slowly, and its views run several times slower than
// plain loops).
#pragma once

#include <cstddef>
#include <span>
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

template <class T, std::size_t Rank>
std::span<T> flat(Tensor<T, Rank>& tensor) {
  return {tensor.data(), tensor.size()};
}
template <class T, std::size_t Rank>
std::span<const T> flat(const Tensor<T, Rank>& tensor) {
  return {tensor.data(), tensor.size()};
}

}  // namespace poslab
