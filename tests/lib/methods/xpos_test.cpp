#include "poslab/methods/xpos.h"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace poslab;

TEST_CASE("xPos: the slow pairs fade least, a query's and a key's scales make the decay of their gap") {
  const auto decay = xpos_decay(64, 512);
  CHECK(decay.front() == doctest::Approx(0.4 / 1.4).epsilon(1e-15));
  CHECK(decay.back() == doctest::Approx((62.0 / 64 + 0.4) / 1.4).epsilon(1e-15));
  const auto query = xpos_decay(64, 700), key = xpos_decay(64, -300), gap = xpos_decay(64, 400);
  for (std::size_t i = 0; i < gap.size(); ++i) CHECK(query[i] * key[i] == doctest::Approx(gap[i]).epsilon(1e-14));
  for (double none : xpos_decay(64, 0)) CHECK(none == 1);
  CHECK_THROWS_AS(xpos_decay(7, 1), std::invalid_argument);
  CHECK_THROWS_AS(xpos_decay(8, 1, 0), std::invalid_argument);
}
