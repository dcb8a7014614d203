#include "poslab/methods/sandwich.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>

using namespace poslab;

TEST_CASE("Sandwich is the product of two sinusoidal position vectors, less what it is at distance 0") {
  // Vectors whose pair i = 1 .. d/2 is sin and cos of p / 10000^(2i/d), multiplied out.
  for (const std::int64_t d : {2, 16, 128}) {
    for (const double query : {0.0, 5.0, 700.0}) {
      for (const double key : {0.0, 3.0, 699.0}) {
        double product = 0;
        for (std::int64_t i = 1; i <= d / 2; ++i) {
          const double w = std::exp(-std::log(10000.0) * 2 * static_cast<double>(i) / static_cast<double>(d));
          product += std::sin(query * w) * std::sin(key * w) + std::cos(query * w) * std::cos(key * w);
        }
        for (std::int64_t head = 0; head < 4; ++head) {
          const double expected = (product - static_cast<double>(d) / 2) / (8 * static_cast<double>(head + 1) / 4);
          CHECK(std::abs(sandwich_bias(d, 4, head, query - key) - expected) < 1e-11);
        }
      }
    }
  }
  CHECK(sandwich_bias(128, 8, 0, 0) == 0);
  CHECK(sandwich_bias(128, 8, 7, 40) == doctest::Approx(sandwich_bias(128, 8, 0, 40) / 8).epsilon(1e-15));
  CHECK_THROWS_AS(sandwich_bias(7, 8, 0, 1), std::invalid_argument);
  CHECK_THROWS_AS(sandwich_bias(8, 8, 8, 1), std::invalid_argument);
}
