#include "poslab/methods/t5.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "golden.h"

using namespace poslab;

TEST_CASE("T5 buckets are upstream's") {
  const auto sets = golden("t5_buckets.json")["sets"];
  for (const auto& set : sets) {
    const bool bidirectional = set["bidirectional"].get<bool>();
    const auto num_buckets = set["num_buckets"].get<std::int64_t>();
    const auto max_distance = set["max_distance"].get<std::int64_t>();
    CAPTURE(bidirectional);
    CAPTURE(num_buckets);
    auto position = set["first_relative_position"].get<std::int64_t>();
    for (const auto& bucket : set["buckets"]) {
      CAPTURE(position);
      CHECK(t5_bucket(position++, bidirectional, num_buckets, max_distance) == bucket.get<std::int64_t>());
    }
  }
}

TEST_CASE("T5 bucket matrix of ten tokens") {
  const std::vector<std::int64_t> first{0, 17, 18, 19, 20, 21, 22, 23, 24, 24};
  const std::vector<std::int64_t> last{8, 8, 7, 6, 5, 4, 3, 2, 1, 0};
  for (std::int64_t key = 0; key < 10; ++key) {
    CHECK(t5_bucket(key - 0, true) == first[static_cast<std::size_t>(key)]);
    CHECK(t5_bucket(key - 9, true) == last[static_cast<std::size_t>(key)]);
  }
}

TEST_CASE("T5 far distances stay in their own direction") {
  constexpr auto furthest = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t distance :
       {std::int64_t{127}, std::int64_t{128}, std::int64_t{200}, std::int64_t{1000}, furthest}) {
    CHECK(t5_bucket(-distance, true) == 15);
    CHECK(t5_bucket(distance, true) == 31);
    CHECK(t5_bucket(distance, false) == 0);
  }
  CHECK(t5_bucket(std::numeric_limits<std::int64_t>::min(), true) == 15);
  CHECK(t5_bucket(-1000, false) == 31);
}

TEST_CASE("T5 refuses buckets that cannot be") {
  CHECK_THROWS_WITH(t5_bucket(1, true, 3), "[t5_bucket] num_buckets must be 4 .. 1000000 but got 3.");
  CHECK_THROWS_AS(t5_bucket(1, false, 1), std::invalid_argument);
  CHECK_THROWS_AS(t5_bucket(1, false, 32, 16), std::invalid_argument);
  CHECK_THROWS_AS(t5_bucket(1, true, -4), std::invalid_argument);
  CHECK_THROWS_AS(t5_bucket(1, true, 2'000'000), std::invalid_argument);
}

TEST_CASE("an odd number of buckets, and a span that ends just beyond the near ones") {
  // By hand from the rule: 33 buckets, 16 near ones; distance 100: 16 + floor(ln(100 / 16) / ln(128 / 16) * 17) = 30.
  CHECK(t5_bucket(-100, false, 33, 128) == 30);
  // 8 + floor(ln(9 / 8) / ln(10 / 8) * 9) = 12.
  CHECK(t5_bucket(-9, false, 17, 10) == 12);
  // 4 + floor(ln(7 / 4) / ln(8 / 4) * 5) = 8.
  CHECK(t5_bucket(-7, false, 9, 8) == 8);
}
