#include "poslab/core/student.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

using namespace poslab;

TEST_CASE("quantiles as the printed tables have them") {
  struct Entry {
    double p;
    std::int64_t degrees;
    double t;
  };
  for (const Entry& e : {Entry{0.975, 1, 12.7062}, Entry{0.975, 2, 4.30265}, Entry{0.975, 3, 3.18245},
                         Entry{0.975, 4, 2.77645}, Entry{0.975, 9, 2.26216}, Entry{0.975, 30, 2.04227},
                         Entry{0.975, 120, 1.97993}, Entry{0.95, 5, 2.01505}, Entry{0.995, 2, 9.92484}}) {
    CAPTURE(e.degrees);
    CHECK(student_t(e.p, e.degrees) == doctest::Approx(e.t).epsilon(3e-6));
  }
  CHECK(student_t(0.5, 3) == doctest::Approx(0));
  CHECK_THROWS_AS(student_t(0.4, 3), std::invalid_argument);
  CHECK_THROWS_AS(student_t(0.975, 0), std::invalid_argument);
}

TEST_CASE("an interval of three values, by hand") {
  // Mean 2, s = 1, so 4.30265 / sqrt(3).
  const ConfidenceInterval ci = confidence_interval(std::vector<double>{1, 2, 3});
  CHECK(ci.mean == doctest::Approx(2));
  CHECK(*ci.low == doctest::Approx(2 - 2.48414).epsilon(1e-5));
  CHECK(*ci.high == doctest::Approx(2 + 2.48414).epsilon(1e-5));
  CHECK_FALSE(confidence_interval(std::vector<double>{1}).low);
}
