#include "poslab/core/ranges.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "poslab/core/numbers.h"

using poslab::Range;

namespace {

template <class T>
std::vector<T> points(const char* text) {
  const auto range = Range<T>::parse(text, "[test]");
  std::vector<T> out;
  for (std::int64_t i = 0; i < range.size(); ++i) out.push_back(range.at(i));
  return out;
}

using Integers = std::vector<std::int64_t>;
using Reals = std::vector<double>;

std::string integer_error(const char* text) {
  try {
    Range<std::int64_t>::parse(text, "[test] n");
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

std::string real_error(const char* text) {
  try {
    Range<double>::parse(text, "[test] x");
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("integers: decimal digits and a minus, nothing else") {
  CHECK(poslab::parse_integer("010", "n") == 10);
  CHECK(poslab::parse_integer("-9223372036854775808", "n") == INT64_MIN);
  for (const char* bad : {"", "+5", "1e3", "0x10", "3.0", " 1", "1 ", "-", "9223372036854775808"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(poslab::parse_integer(bad, "n"), std::invalid_argument);
  }
}

TEST_CASE("reals: decimal or exponent, finite") {
  CHECK(poslab::parse_real("-0.5", "x") == -0.5);
  CHECK(poslab::parse_real("1e6", "x") == 1e6);
  for (const char* bad : {"", "nan", "inf", "-inf", "1e999", "0x1p3", "1,5", "+1", "1 "}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(poslab::parse_real(bad, "x"), std::invalid_argument);
  }
}

TEST_CASE("a range is a list, steps or powers, last included") {
  CHECK(points<std::int64_t>("5,2,105") == Integers{5, 2, 105});
  CHECK(points<std::int64_t>("7") == Integers{7});
  CHECK(points<std::int64_t>("0:6:+2") == Integers{0, 2, 4, 6});
  CHECK(points<std::int64_t>("0:7:+2") == Integers{0, 2, 4, 6});
  CHECK(points<std::int64_t>("3:0:+-1") == Integers{3, 2, 1, 0});
  CHECK(points<std::int64_t>("1024:8192:*2") == Integers{1024, 2048, 4096, 8192});
  CHECK(points<std::int64_t>("1024:8191:*2") == Integers{1024, 2048, 4096});
  CHECK(points<std::int64_t>("4:9:*1.5") == Integers{4, 6, 9});
  CHECK(points<std::int64_t>("1000:1331:*1.1") == Integers{1000, 1100, 1210, 1331});
  CHECK(points<std::int64_t>("16:1:*0.5") == Integers{16, 8, 4, 2, 1});
  CHECK(points<std::int64_t>("-1:-8:*2") == Integers{-1, -2, -4, -8});
  CHECK(points<std::int64_t>("5:5:+1") == Integers{5});
  CHECK(points<double>("5:5:*3") == Reals{5});
  CHECK(points<double>("1:8:*2") == Reals{1, 2, 4, 8});
  CHECK(points<double>("-8:-1:*0.5") == Reals{-8, -4, -2, -1});
}

TEST_CASE("points are never accumulated, and rounding does not lose the last one") {
  CHECK(points<double>("0:0.3:+0.1") == Reals{0, 0.1, 0.2, 3 * 0.1});
  CHECK(points<double>("0:1:+0.1").size() == 11);
  CHECK(points<double>("1000000000:1000000001:+0.1").size() == 11);
  CHECK(points<double>("0.001:1000:*10").size() == 7);
  CHECK(points<double>("1:0.001:*0.1").size() == 4);
  const auto long_range = Range<double>::parse("0:999999:+1", "[test]");
  CHECK(long_range.size() == 1000000);
  CHECK(long_range.at(999999) == 999999);
  const auto tenths = Range<double>::parse("0:99999.9:+0.1", "[test]");
  CHECK(tenths.size() == 1000000);
  CHECK(tenths.at(123457) == 123457 * 0.1);
  // The whole span of 64 bits does not overflow.
  CHECK(points<std::int64_t>("-9223372036854775808:9223372036854775807:+9223372036854775807") ==
        Integers{INT64_MIN, -1, INT64_MAX - 1});
  CHECK(points<std::int64_t>("9223372036854775807:-9223372036854775808:+-9223372036854775808") ==
        Integers{INT64_MAX, -1});
}

TEST_CASE("a range that cannot be is refused in clear words") {
  CHECK(integer_error("1:8:2") ==
        "[test] n: '1:8:2' is not first:last:+step or first:last:*factor (`+-1` steps down).");
  CHECK(integer_error("1:8") != "");
  CHECK(integer_error("1:8:+") != "");
  CHECK(integer_error("1:2:3:+4") != "");
  CHECK(integer_error("") == "[test] n: '' is not an integer.");
  CHECK(integer_error("1,,2") != "");
  CHECK(integer_error("1,2,1") == "[test] n: the point 1 stands twice in '1,2,1'.");
  CHECK(integer_error("1:8:+0.5") == "[test] n: '0.5' is not an integer.");
  CHECK(integer_error("5:9:*1.5") == "[test] n: '5:9:*1.5' meets 7.5, which is not a whole number below 2^53.");
  CHECK(integer_error("1:8:+0") == "[test] n: the step in '1:8:+0' is 0.");
  CHECK(integer_error("8:1:+1") == "[test] n: steps of 1 do not lead from 8 to 1.");
  CHECK(integer_error("1:8:*0.5") == "[test] n: factors of 0.5 do not lead from 1 to 8.");
  CHECK(integer_error("0:8:*2") != "");
  CHECK(integer_error("-1:8:*2") != "");
  CHECK(integer_error("1:8:*1") != "");
  CHECK(integer_error("1:8:*-2") != "");
  CHECK(integer_error("0:1000000:+1") == "[test] n: '0:1000000:+1' has more than 1000000 points.");
  CHECK(integer_error("1:9223372036854775807:*2") != "");
  CHECK(real_error("0:1:+1e-9") == "[test] x: '0:1:+1e-9' has more than 1000000 points.");
  CHECK(real_error("-1e308:1e308:+1e300") == "[test] x: '-1e308:1e308:+1e300' has more than 1000000 points.");
  CHECK(real_error("1:2:*1.0000001") == "[test] x: '1:2:*1.0000001' has more than 1000000 points.");
  CHECK(real_error("1e16:10000000000000004:+0.5") ==
        "[test] x: '1e16:10000000000000004:+0.5' steps too finely: two of its points are the same number.");
  CHECK(real_error("0:nan:+1") != "");
}
