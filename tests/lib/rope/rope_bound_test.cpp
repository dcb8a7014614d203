#include "poslab/rope/rope_bound.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "golden.h"
#include "poslab/methods/sinusoidal.h"
#include "poslab/rope/rope.h"

using namespace poslab;

namespace {

constexpr auto quiet = [](double) {};

bool feasible(std::int64_t rotary_dim, double base, std::int64_t seq_len) {
  const std::vector<double> inv_freq = rope_inv_freq(rotary_dim, base);
  for (std::int64_t m = 0; m < seq_len; ++m) {
    if (cosine_sum(inv_freq, static_cast<double>(m)) < 0) return false;
  }
  return true;
}

bool in_island(const BaseSearch& search, double base) {
  return std::any_of(search.islands.begin(), search.islands.end(),
                     [&](const BaseIsland& i) { return base >= i.from && (!i.to || base < *i.to); });
}

}  // namespace

TEST_CASE("smallest bases are the golden ones to the digits given") {
  const auto bound = golden("base_bound.json");
  const auto& infimum = bound["head_dim_128"]["infimum"];
  CHECK(smallest_base(128, 1024, 1, quiet).smallest == doctest::Approx(infimum["1024"].get<double>()).epsilon(1e-6));
  CHECK(smallest_base(128, 4096, 1, quiet).smallest == doctest::Approx(infimum["4096"].get<double>()).epsilon(3e-6));
  CHECK(smallest_base(128, 8192, 1, quiet).smallest == doctest::Approx(infimum["8192"].get<double>()).epsilon(6e-6));
  CHECK(smallest_base(128, 16384, 2, quiet).smallest == doctest::Approx(infimum["16384"].get<double>()).epsilon(3e-6));
  CHECK(smallest_base(64, 1024, 1, quiet).smallest ==
        doctest::Approx(bound["head_dim_64_infimum"]["1024"].get<double>()).epsilon(1e-5));
  // The golden search stepped over the first 4 of this island: 100070.3 is feasible, as the next test shows.
  CHECK(smallest_base(64, 4096, 1, quiet).smallest ==
        doctest::Approx(bound["head_dim_64_infimum"]["4096"].get<double>()).epsilon(1e-4));
}

TEST_CASE("just below the smallest base a distance fails, at it none does") {
  for (const auto& [rotary_dim, seq_len] : {std::pair{128, 1024}, {64, 4096}, {24, 300}, {4, 100}}) {
    const BaseSearch search = smallest_base(rotary_dim, seq_len, 2, quiet);
    REQUIRE(search.smallest);
    CHECK(!feasible(rotary_dim, *search.smallest * (1 - 1e-6), seq_len));
    CHECK(feasible(rotary_dim, *search.smallest * (1 + 1e-9), seq_len));
    CHECK(search.unproved < 1e-9);
  }
}

TEST_CASE("islands agree with a direct look at many bases") {
  const auto bound = golden("base_bound.json")["head_dim_128"];
  const BaseSearch search = feasible_bases(128, 1024, 2, quiet);
  REQUIRE(search.islands.size() == 3);
  CHECK(search.islands[0].from == *search.smallest);
  CHECK(search.islands[0].from == doctest::Approx(bound["first_island_1024"][0].get<double>()).epsilon(2e-6));
  CHECK(search.islands[0].to == doctest::Approx(bound["first_island_1024"][1].get<double>()).epsilon(2e-6));
  // Golden on a grid of whole bases: 6018.3 is feasible already.
  CHECK(search.islands[2].from == doctest::Approx(bound["always_feasible_above"]["1024"].get<double>()).epsilon(2e-4));
  CHECK(!search.islands[2].to);
  for (double base = 4000; base < 9000; base *= 1.0037) CHECK(in_island(search, base) == feasible(128, base, 1024));
  for (const BaseIsland& island : search.islands) {
    CHECK(feasible(128, island.from * (1 + 1e-8), 1024));
    CHECK(!feasible(128, island.from * (1 - 1e-7), 1024));
    if (island.to) CHECK(!feasible(128, *island.to * (1 + 1e-7), 1024));
  }
}

TEST_CASE("the base from which all are feasible, and results that do not depend on threads") {
  const auto bound = golden("base_bound.json")["head_dim_128"];
  const BaseSearch one = feasible_bases(128, 4096, 1, quiet);
  const BaseSearch three = feasible_bases(128, 4096, 3, quiet);
  CHECK(one.islands.back().from == doctest::Approx(bound["always_feasible_above"]["4096"].get<double>()).epsilon(1e-4));
  CHECK(one.unproved == three.unproved);
  REQUIRE(one.islands.size() == three.islands.size());
  for (std::size_t i = 0; i < one.islands.size(); ++i) {
    CHECK(one.islands[i].from == three.islands[i].from);
    CHECK(one.islands[i].to == three.islands[i].to);
  }
}

TEST_CASE("lengths that every base or no base serves") {
  for (std::int64_t seq_len : {1, 2}) {
    const BaseSearch search = feasible_bases(128, seq_len, 1, quiet);
    CHECK(search.smallest == 1);
    REQUIRE(search.islands.size() == 1);
    CHECK(!search.islands[0].to);
  }
  CHECK(!feasible_bases(2, 3, 1, quiet).smallest);  // one pair: cos(2) < 0 whatever the base
  CHECK_THROWS_WITH_AS(smallest_base(7, 10, 1, quiet), doctest::Contains("got 7"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(smallest_base(8, 0, 1, quiet), doctest::Contains("got 0"), std::invalid_argument);
}

TEST_CASE("the first negative distance is golden's") {
  const auto first = golden("base_bound.json")["first_negative_m_head_dim_128"];
  for (const auto& [base, m] : first.items()) {
    const std::vector<double> inv_freq = rope_inv_freq(128, std::stod(base));
    CHECK(first_negative(inv_freq, 1 << 24, 1) == m.get<std::int64_t>());
    CHECK(first_negative(inv_freq, 1 << 24, 2) == m.get<std::int64_t>());
    CHECK(!first_negative(inv_freq, m.get<std::int64_t>(), 1));
    CHECK(first_negative(inv_freq, m.get<std::int64_t>() + 1, 1) == m.get<std::int64_t>());
  }
}

TEST_CASE("critical dimensions, extrapolation lengths and decay bounds are golden's") {
  const auto anchors = golden("analytic_anchors.json");
  for (const auto& [name, c] : anchors["critical_dimension"].items()) {
    CAPTURE(name);
    CHECK(critical_dim(c["d"], c["base"], c["L"]) == c["critical_dim"].get<std::int64_t>());
  }
  for (const auto& c : anchors["liu_T_extra"]) {
    // The paper's model: head_dim 128, pre-trained on 4096 tokens with base 10000.
    CHECK(extrapolation_length(128, c["beta"], critical_dim(128, 10000, 4096)) ==
          doctest::Approx(c["T_extra"].get<double>()).epsilon(1e-12));
  }
  CHECK(critical_dim(128, 10000, 1) == 0);
  CHECK(critical_dim(128, 10000, 1e9) == 128);
  const std::vector<double> inv_freq = rope_inv_freq(128, 10000);
  for (const auto& [distance, value] : anchors["roformer_bound_d128"].items()) {
    CHECK(decay_bound(inv_freq, std::stod(distance)) == doctest::Approx(value.get<double>()).epsilon(1e-4));
  }
}

TEST_CASE("a violation at the edge of any range of distances is seen") {
  // One pair: B(m) = cos(w m) is negative first at `first`, wherever ranges and their tasks meet.
  for (std::int64_t block : {64, 128, 4096, 8192, 65536}) {
    for (std::int64_t first : {block - 1, block, block + 1}) {
      const double inv_freq[] = {std::numbers::pi / 2 / (static_cast<double>(first) - 0.5)};
      for (int threads : {1, 3}) {
        CHECK(first_negative(inv_freq, first + 1, threads) == first);
        CHECK(!first_negative(inv_freq, first, threads));
      }
    }
  }
  // Base 7200 fails at the last distance alone.
  const std::vector<double> inv_freq = rope_inv_freq(32, 7200);
  for (std::int64_t m = 0; m < 255; ++m) CHECK(cosine_sum(inv_freq, static_cast<double>(m)) >= 0);
  CHECK(cosine_sum(inv_freq, 255) < 0);
  const BaseSearch search = feasible_bases(32, 256, 2, quiet);
  CHECK(!in_island(search, 7200));
  CHECK(search.islands.back().from == doctest::Approx(7390.69).epsilon(1e-6));
}
