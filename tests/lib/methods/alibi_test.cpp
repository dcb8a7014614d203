#include "poslab/methods/alibi.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "golden.h"
#include "poslab/core/element_type.h"

using namespace poslab;

TEST_CASE("ALiBi slopes are those that BLOOM and MPT compute, and Falcon's are their bf16") {
  const auto cases = golden("alibi.json")["heads"];
  for (const auto& [heads, expected] : cases.items()) {
    CAPTURE(heads);
    const auto slopes = alibi_slopes(std::stoll(heads));
    REQUIRE(slopes.size() == expected["slopes"].size());
    for (std::size_t h = 0; h < slopes.size(); ++h) {
      CHECK(std::abs(slopes[h] - expected["slopes"][h].get<double>()) < 1e-12);
      CHECK(round_to(DType::bf16, slopes[h]) == expected["falcon_bf16"][h].get<double>());
    }
  }
}

TEST_CASE("ALiBi slopes follow MPT's alibi_bias_max") {
  const auto cases = golden("alibi.json")["mpt_custom_bias_max"];
  for (const auto& [key, expected] : cases.items()) {
    CAPTURE(key);
    const auto slash = key.find('/');
    const auto slopes = alibi_slopes(std::stoll(key.substr(0, slash)), std::stod(key.substr(slash + 1)));
    REQUIRE(slopes.size() == expected.size());
    for (std::size_t h = 0; h < slopes.size(); ++h) CHECK(std::abs(slopes[h] - expected[h].get<double>()) < 1e-7);
  }
}

TEST_CASE("ALiBi bias is MPT's bias of the last query, and BLOOM's up to a constant per query") {
  const auto cases = golden("alibi.json")["bias_rows_seq6"];
  for (const auto& [heads, expected] : cases.items()) {
    const auto slopes = alibi_slopes(std::stoll(heads));
    for (std::size_t h = 0; h < slopes.size(); ++h) {
      for (std::int64_t key = 0; key < 6; ++key) {
        const double bias = alibi_bias(slopes[h], 5, key);
        const auto k = static_cast<std::size_t>(key);
        CHECK(std::abs(bias - expected["mpt"][h][k].get<double>()) < 4e-7);
        CHECK(std::abs(bias + 5 * slopes[h] - expected["bloom"][h][k].get<double>()) < 4e-7);
      }
    }
  }
  CHECK_FALSE(std::signbit(alibi_bias(0.5, 3, 3)));
  CHECK(alibi_bias(0.5, 2, 6) == -2.0);
}

TEST_CASE("ALiBi slopes for any head count interleave, as in the authors' code and not as in the paper's sentence") {
  const auto twelve = alibi_slopes(12);
  CHECK(twelve[7] == 0.00390625);
  CHECK(twelve[8] == doctest::Approx(0.707107).epsilon(1e-6));
  CHECK(twelve[11] == doctest::Approx(0.088388).epsilon(1e-5));
  const auto forty = alibi_slopes(40);
  CHECK(forty[0] == doctest::Approx(0.840896).epsilon(1e-6));
  CHECK(forty[32] == doctest::Approx(0.917004).epsilon(1e-6));
  CHECK(forty[39] == doctest::Approx(0.272627).epsilon(1e-5));
}

TEST_CASE("ALiBi refuses what has no slopes") {
  CHECK_THROWS_WITH(alibi_slopes(0), "[alibi_slopes] n_heads must be 1 .. 1000000 but got 0.");
  CHECK_THROWS_AS(alibi_slopes(1'000'001), std::invalid_argument);
  CHECK_THROWS_AS(alibi_slopes(8, 0), std::invalid_argument);
  CHECK_THROWS_AS(alibi_slopes(8, std::numeric_limits<double>::infinity()), std::invalid_argument);
  CHECK_THROWS_AS(alibi_slopes(8, std::nan("")), std::invalid_argument);
}
