#include "poslab/kernels/sum.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "poslab/core/random.h"

using namespace poslab;

namespace {

// The order that sum.h states.
double by_the_book(const std::vector<double>& terms) {
  double partial[16] = {};
  for (std::size_t j = 0; j < terms.size(); ++j) partial[j % 16] += terms[j];
  for (std::size_t width : {8, 4, 2, 1}) {
    for (std::size_t j = 0; j < width; ++j) partial[j] += partial[j + width];
  }
  return partial[0];
}

}  // namespace

TEST_CASE("sums and products add in the stated order, at every length, on every instruction set") {
  Generator random(6);
  for (std::size_t n = 0; n <= 67; ++n) {
    std::vector<double> x = random.normals(static_cast<std::int64_t>(n) + 1),
                        y = random.normals(static_cast<std::int64_t>(n) + 1);
    std::vector<float> xf(x.begin(), x.end()), yf(y.begin(), y.end());
    for (std::size_t shift : {0, 1}) {
      std::vector<double> terms, terms_f32, products, products_f32;
      for (std::size_t j = shift; j < x.size(); ++j) {
        terms.push_back(x[j]);
        terms_f32.push_back(static_cast<double>(xf[j]));
        products.push_back(x[j] * y[j]);
        products_f32.push_back(static_cast<double>(xf[j]) * static_cast<double>(yf[j]));
      }
      for (Isa isa : supported_isas()) {
        CHECK(ordered_sum(std::span<const double>(x).subspan(shift), isa) == by_the_book(terms));
        CHECK(ordered_sum(std::span<const float>(xf).subspan(shift), isa) == by_the_book(terms_f32));
        CHECK(ordered_dot(std::span<const double>(x).subspan(shift), std::span<const double>(y).subspan(shift), isa) ==
              by_the_book(products));
        CHECK(ordered_dot(std::span<const float>(xf).subspan(shift), std::span<const float>(yf).subspan(shift), isa) ==
              by_the_book(products_f32));
      }
    }
  }
}
