#include "poslab/rope/rope_variants.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <set>

#include "golden.h"
#include "poslab/rope/rope.h"

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

TEST_CASE("Resonance: whole wavelengths, so that angles repeat turn after turn") {
  const auto inv_freq = rope_inv_freq(128, 10000);
  const auto rounded = resonance_inv_freq(inv_freq);
  const auto anchors = golden("analytic_anchors.json");
  for (const auto& row : anchors.at("resonance_first16")) {
    const auto i = row.at("i").get<std::size_t>();
    CHECK(2 * std::numbers::pi / inv_freq[i] == doctest::Approx(row.at("lambda").get<double>()).epsilon(1e-5));
    const auto wavelength = row.at("rounded").get<double>();
    CHECK(2 * std::numbers::pi / rounded[i] == doctest::Approx(wavelength).epsilon(1e-14));
    CHECK(std::cos((5 + 7 * wavelength) * rounded[i]) == doctest::Approx(std::cos(5 * rounded[i])).epsilon(1e-12));
  }
  CHECK(resonance_inv_freq(std::vector<double>{0.0})[0] == 0);
}

TEST_CASE("HoPE: pairs that never finish a turn in training stand still") {
  const auto inv_freq = rope_inv_freq(128, 10000);
  const auto kept = hope_inv_freq(inv_freq, 4096);
  // Llama-2's critical pair is 46 (analytic_anchors.json).
  for (std::size_t i = 0; i < 46; ++i) CHECK(kept[i] == inv_freq[i]);
  for (std::size_t i = 46; i < 64; ++i) CHECK(kept[i] == 0);
  CHECK_THROWS_AS(hope_inv_freq(inv_freq, 0), std::invalid_argument);
}

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
