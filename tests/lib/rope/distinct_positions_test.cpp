#include "poslab/rope/distinct_positions.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "golden.h"

namespace poslab {
namespace {

// By the definition: whole rows in a set.
DistinctPositions by_definition(const ProfiledRope& rope, std::int64_t seq_len) {
  DistinctPositions result;
  std::set<std::vector<double>> rows;
  std::vector<double> before;
  for (std::int64_t p = 0; p < seq_len; ++p) {
    const auto n = static_cast<std::size_t>(rope.n_pairs());
    std::vector<double> cos(n), sin(n);
    rope.cos_sin(static_cast<double>(p), cos, sin);
    cos.insert(cos.end(), sin.begin(), sin.end());
    for (double& x : cos) x = std::isnan(x) ? 9 : x;
    if (cos == before && !result.first_collision) result.first_collision = p - 1;
    rows.insert(cos);
    before = cos;
  }
  result.count = static_cast<std::int64_t>(rows.size());
  return result;
}

}  // namespace

TEST_CASE("positions are counted and collisions found as a plain search does") {
  for (const ProfileWord& word : profile_words()) {
    for (const auto& [head_dim, theta] : {std::pair{2, 10000.0}, {4, 10000.0}, {8, 1e30}, {32, 500.0}}) {
      CAPTURE(word.word);
      CAPTURE(head_dim);
      const ProfiledRope rope(numeric_profile(word.word), head_dim, theta);
      for (std::int64_t seq_len : {1, 2, 3000, 40000}) {
        if (seq_len == 40000 && head_dim != 4) continue;  // slow; one is enough to cross a chunk's end
        const DistinctPositions wanted = by_definition(rope, seq_len);
        for (int threads : {1, 3}) {
          const DistinctPositions got = distinct_positions(rope, seq_len, threads);
          CHECK(got.count == wanted.count);
          CHECK(got.first_collision == wanted.first_collision);
        }
      }
    }
  }
}

TEST_CASE("different angles whose stored cos and sin agree collide too") {
  for (const char* profile : {"bf16_table", "f16_table", "f32_angle"}) {
    CAPTURE(profile);
    const ProfiledRope rope(numeric_profile(profile), {0.003, 0.0001});
    const DistinctPositions wanted = by_definition(rope, 40000);
    const DistinctPositions got = distinct_positions(rope, 40000, 1);
    CHECK(got.count == wanted.count);
    CHECK(got.first_collision == wanted.first_collision);
  }
}

TEST_CASE("bf16 keeps the known number of positions") {
  const ProfiledRope rope(numeric_profile("bf16_position"), 128, 10000);
  int compared = 0;
  const auto anchors = golden("analytic_anchors.json");
  for (const auto& entry : anchors.at("bf16_positions")) {
    const DistinctPositions got = distinct_positions(rope, entry.at("N"), 2);
    CHECK(got.count == entry.at("unique").get<std::int64_t>());
    CHECK(got.first_collision == (entry.at("N") == 256 ? std::optional<std::int64_t>{} : 256));
    ++compared;
  }
  CHECK(compared >= 8);
}

TEST_CASE("f16 keeps every position to 2048 and 3073 of 4096") {
  const ProfiledRope rope(numeric_profile("f16_position"), 128, 10000);
  CHECK(distinct_positions(rope, 2049, 1).count == 2049);
  const DistinctPositions got = distinct_positions(rope, 4096, 1);
  CHECK(got.count == 3073);
  CHECK(got.first_collision == 2048);
}

TEST_CASE("progress ends at one and impossible lengths are refused") {
  const ProfiledRope rope(numeric_profile("hf_f32"), 4, 10000);
  double last = 0;
  distinct_positions(rope, 100000, 2, [&](double part) {
    CHECK(part > last);
    last = part;
  });
  CHECK(last == 1);
  CHECK_THROWS_WITH_AS(distinct_positions(rope, 0, 1), doctest::Contains("between 1 and"), std::invalid_argument);
  CHECK_THROWS_AS(distinct_positions(rope, max_distinct_positions + 1, 1), std::invalid_argument);
}

}  // namespace poslab
