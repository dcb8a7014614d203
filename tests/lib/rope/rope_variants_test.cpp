#include "poslab/rope/rope_variants.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <set>

#include "golden.h"
#include "poslab/rope/rope.h"

using namespace poslab;

TEST_CASE("ReRoPE: no distance beyond the window; leaky ones go on slowly") {
  CHECK(rerope_distance(0, 512) == 0);
  CHECK(rerope_distance(511, 512) == 511);
  CHECK(rerope_distance(512, 512) == 512);
  CHECK(rerope_distance(100000, 512) == 512);
  CHECK(rerope_distance(512 + 1600, 512, 16) == 512 + 100);
  CHECK(rerope_distance(1000, 512, 1) == 1000);
  CHECK_THROWS_AS(rerope_distance(-1, 512), std::invalid_argument);
  CHECK_THROWS_AS(rerope_distance(1, 512, 0.5), std::invalid_argument);
}

TEST_CASE("Self-Extend: exact neighbours, grouped others, and the reach of the paper's formula") {
  const std::int64_t window = 4, group = 2, trained = 7;
  // Figure 3 of the paper has 10 tokens, L = 7, window 4, group 2: row 9 reads 6 6 5 5 4 4 3 2 1 0.
  const std::int64_t figure[] = {6, 6, 5, 5, 4, 4, 3, 2, 1, 0};
  for (std::int64_t key = 0; key < 10; ++key) {
    CHECK(self_extend_distance(9, key, window, group) == figure[key]);
  }
  // No query within (L - window) group + window tokens sees a distance beyond training.
  for (std::int64_t query = 0; query < (trained - window) * group + window; ++query) {
    std::int64_t last = -1;
    for (std::int64_t key = query; key >= 0; --key) {
      const std::int64_t distance = self_extend_distance(query, key, window, group);
      CHECK(distance < trained);
      CHECK(distance >= last);
      last = distance;
    }
  }
  CHECK(self_extend_distance(5000, 1000, 1024, 1) == 4000);
  CHECK_THROWS_AS(self_extend_distance(1, 2, 4, 2), std::invalid_argument);
  CHECK_THROWS_AS(self_extend_distance(2, 1, 4, 0), std::invalid_argument);
}
