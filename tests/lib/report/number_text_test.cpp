#include "poslab/report/number_text.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>

namespace poslab {
namespace {

std::string text(double value) {
  char buffer[longest_number];
  return {buffer, write_number(buffer, value)};
}

TEST_CASE("numbers are written as fmt writes them") {
  using Limits = std::numeric_limits<double>;
  for (double value : {0.0,           1.0,      -1.0,
                       10.0,          100000.0, 123456789012345680.0,
                       1e15,          1e16,     9999999999999998.0,
                       1e17,          1e22,     0.1,
                       0.001,         0.0001,   0.00012345,
                       0.00001,       1.5e-5,   -2.2250738585072014e-308,
                       5e-324,        1e100,    Limits::max(),
                       Limits::min(), 0.3,      1.0 / 3,
                       2.0 / 3,       12345.678}) {
    CHECK(text(value) == fmt::format("{}", value));
  }
  CHECK(text(-0.0) == "-0.0");
  std::mt19937_64 bits(1);
  for (int i = 0; i < 300000; ++i) {
    const auto any = std::bit_cast<double>(bits());
    if (!std::isfinite(any)) continue;
    const double near_one = std::ldexp(any, -std::ilogb(any) + i % 80 - 40);
    for (double value : {any, near_one, std::trunc(near_one)}) {
      if (value == 0 || text(value) == fmt::format("{}", value)) continue;
      FAIL("differs: " << text(value) << " and " << fmt::format("{}", value));
    }
  }
}

}  // namespace
}  // namespace poslab
