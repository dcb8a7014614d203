#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

#include "golden.h"
#include "poslab/rope/rope.h"
#include "run_experiment.h"

using namespace poslab;

TEST_CASE("bound: the islands, the smallest base and the published tables at 4096 tokens") {
  const RanExperiment ran = run_experiment("bound", {{"rope_theta", 10000.0}, {"seq_len", std::int64_t{4096}}});
  const auto bound = golden("base_bound.json");
  CHECK(ran.summary<std::string>("verdict") == "infeasible");
  CHECK(ran.summary<std::int64_t>("first_negative") == bound["first_negative_m_head_dim_128"]["10000"]);
  CHECK(ran.summary<double>("smallest_base") ==
        doctest::Approx(bound["head_dim_128"]["infimum"]["4096"].get<double>()).epsilon(3e-6));
  const std::int64_t count = ran.summary<std::int64_t>("island_count");
  REQUIRE(ran.report.rows.count == count);
  CHECK(ran.row<double>(0, "base_from") == ran.summary<double>("smallest_base"));
  for (std::int64_t i = 0; i + 1 < count; ++i) {
    CHECK(ran.row<double>(i, "base_from") < ran.row<double>(i, "base_to"));
    CHECK(ran.row<double>(i, "base_to") < ran.row<double>(i + 1, "base_from"));
  }
  CHECK(ran.row<double>(count - 1, "base_from") == ran.summary<double>("always_feasible_above"));
  CHECK(ran.row_is_null(count - 1, "base_to"));
  CHECK(ran.summary<double>("published_men") == 27000);
  CHECK(ran.summary<bool>("men_reproduces"));
  CHECK(ran.summary<bool>("su_reproduces"));
}

TEST_CASE("bound: published rows that do not reproduce are said plainly") {
  const auto published = golden("base_bound.json")["published"];
  const auto& men = published["Men et al. 2024, arXiv 2405.14591, table 2"];
  const RanExperiment ran = run_experiment("bound", {{"seq_len", std::int64_t{2048}}});
  CHECK(ran.summary<double>("published_men") == men["2k"]);
  CHECK(!ran.summary<bool>("men_reproduces"));
  CHECK(ran.summary<bool>("su_reproduces"));
  CHECK(ran.report.conclusion.find("16000 does NOT reproduce") != std::string::npos);
  // Other widths have no published row.
  CHECK(run_experiment("bound", {{"head_dim", std::int64_t{64}}, {"seq_len", std::int64_t{2048}}})
            .summary_is_null("published_men"));
}

TEST_CASE("bound: what fine-tuning with another base reaches") {
  const auto anchors = golden("analytic_anchors.json");
  for (const auto& c : anchors["liu_T_extra"]) {
    const RanExperiment ran = run_experiment("bound", {{"rope_theta", c["beta"].get<double>()},
                                                       {"trained_rope_theta", 10000.0},
                                                       {"original_max_position_embeddings", std::int64_t{4096}},
                                                       {"search", false}});
    CHECK(ran.summary<std::int64_t>("critical_dim") == 92);
    CHECK(ran.summary<double>("t_extra") == doctest::Approx(c["T_extra"].get<double>()).epsilon(1e-12));
    CHECK(ran.summary_is_null("smallest_base"));
    CHECK(ran.report.rows.count == 0);
  }
  // Field report R02: 5e5, from 8192 to 81920 tokens.
  const RanExperiment ran = run_experiment("bound", {{"rope_theta", 5e5},
                                                     {"original_max_position_embeddings", std::int64_t{8192}},
                                                     {"seq_len", std::int64_t{81920}},
                                                     {"search", false}});
  CHECK(ran.summary<double>("ntk_base") == doctest::Approx(5186125.5).epsilon(1e-7));
  CHECK(ran.summary<double>("log_base") == doctest::Approx(33757595.9).epsilon(1e-7));
}

TEST_CASE("bound: turns, wavelengths and the decay bound follow the scaled frequencies") {
  const auto anchors = golden("analytic_anchors.json");
  for (const auto& [name, c] : anchors["critical_dimension"].items()) {
    CAPTURE(name);
    const RanExperiment ran = run_experiment("bound", {{"rope_theta", c["base"].get<double>()},
                                                       {"head_dim", c["d"].get<std::int64_t>()},
                                                       {"seq_len", c["L"].get<std::int64_t>()},
                                                       {"search", false}});
    CHECK(ran.summary<std::int64_t>("critical_dim") == c["critical_dim"].get<std::int64_t>());
    CHECK(ran.summary<std::int64_t>("full_turns") ==
          c["d"].get<std::int64_t>() / 2 - c["pairs_with_wavelength_gt_L"].get<std::int64_t>());
    CHECK(std::abs(ran.summary<double>("slowest_wavelength") - c["longest_wavelength"].get<double>()) < 0.06);
  }
  // Position interpolation by 4 moves everything 4 times further out.
  const Settings settings = {{"distances", std::vector<std::int64_t>{0, 1000, 4000}}, {"search", false}};
  const RanExperiment plain = run_experiment("bound", settings);
  Settings linear = settings;
  linear.emplace_back("rope_type", std::string("linear"));
  linear.emplace_back("factor", 4.0);
  const RanExperiment scaled = run_experiment("bound", linear);
  const auto at = [](const RanExperiment& ran, const char* field, std::size_t i) {
    return ran.summary<std::vector<double>>(field)[i];
  };
  CHECK(at(scaled, "decay_bound", 2) == doctest::Approx(at(plain, "decay_bound", 1)).epsilon(1e-12));
  CHECK(at(scaled, "cosine_sum", 2) == doctest::Approx(at(plain, "cosine_sum", 1)).epsilon(1e-12));
  CHECK(at(plain, "cosine_sum", 0) == 64);
  CHECK(at(plain, "decay_bound", 0) == 32.5);
  const std::int64_t first = scaled.summary<std::int64_t>("first_negative");
  CHECK(first > 4 * (1707 - 1));
  CHECK(first <= 4 * 1707);
}

TEST_CASE("bound: bad input names the value") {
  const auto run = [](const Settings& settings) { run_experiment("bound", settings); };
  CHECK_THROWS_WITH_AS(run({{"seq_len", std::int64_t{0}}}), doctest::Contains("got 0"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(run({{"seq_len", std::int64_t{1} << 25}}), doctest::Contains("33554432"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(run({{"distances", std::vector<std::int64_t>{3, -1}}}), doctest::Contains("-1"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(run({{"trained_rope_theta", 1.0}}), doctest::Contains("got 1"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(run({{"islands", true}, {"search", false}}), doctest::Contains("--no-search"),
                       std::invalid_argument);
  CHECK_THROWS_AS(run({{"rotary_dim", std::int64_t{7}}}), std::invalid_argument);
}
