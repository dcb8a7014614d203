#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "golden.h"
#include "run_experiment.h"

using Reals = std::vector<double>;
using Texts = std::vector<std::string>;

namespace {

bool agrees(double value, double expected) {
  return std::abs(value - expected) <= 1e-12 * std::max(1.0, std::abs(expected));
}

}  // namespace

TEST_CASE("rope-score: the lesson's scores") {
  const auto lesson = golden("lesson_rope.json");
  const auto ran = run_experiment("rope-score");
  REQUIRE(ran.report.rows.count == 4);
  CHECK(agrees(ran.row<double>(0, "score"), -4.719857073336664));
  CHECK(ran.row<std::int64_t>(0, "distance") == 3);
  CHECK(agrees(ran.row<double>(3, "score"), -5.228169612714955));
  CHECK(ran.summary<double>("max_spread_at_equal_distance") < 1e-13);
  CHECK(ran.summary<double>("max_spread_at_equal_distance") > 0);
  CHECK(agrees(ran.summary<double>("unrotated_score"), lesson["unrotated_dot"].get<double>()));
  CHECK(ran.report.conclusion.find("Distance 3: score -4.7199") == 0);

  Texts placements;
  for (const auto& s : lesson["scores"]) {
    placements.push_back(std::to_string(s["m"].get<int>()) + ":" + std::to_string(s["n"].get<int>()));
  }
  const auto all = run_experiment("rope-score", {{"placements", placements}});
  for (std::size_t i = 0; i < placements.size(); ++i) {
    CAPTURE(placements[i]);
    const auto row = static_cast<std::int64_t>(i);
    CHECK(agrees(all.row<double>(row, "score"), lesson["scores"][i]["exact_rounded"].get<double>()));
    CHECK(all.row<std::int64_t>(row, "query_position") == lesson["scores"][i]["m"].get<std::int64_t>());
    CHECK(all.row<std::int64_t>(row, "key_position") == lesson["scores"][i]["n"].get<std::int64_t>());
  }
}

TEST_CASE("rope-score: each layout is shift invariant by itself") {
  const auto scores = [](const char* layout) {
    return run_experiment("rope-score", {{"query", Reals{1, 2, 3, 4}},
                                         {"key", Reals{0.5, -1, 2, 0.25}},
                                         {"placements", Texts{"3:1", "10:8", "9:9"}},
                                         {"layout", layout}});
  };
  for (const auto& [layout, score] : {std::pair{"interleaved", 5.659235}, std::pair{"half", -3.160112}}) {
    const auto ran = scores(layout);
    CHECK(std::abs(ran.row<double>(0, "score") - score) < 1e-6);
    CHECK(std::abs(ran.row<double>(1, "score") - score) < 1e-6);
    CHECK(std::abs(ran.row<double>(2, "score") - 5.5) < 1e-14);
    CHECK(ran.summary<std::int64_t>("resolved_head_dim") == 4);
  }
}

TEST_CASE("rope-score: the share of every pair, and of the channels that stand still") {
  const auto ran = run_experiment(
      "rope-score",
      {{"per_pair", true}, {"rotary_dim", std::int64_t{6}}, {"layout", "half"}, {"placements", Texts{"7:2"}}});
  const auto lesson = golden("lesson_rope.json");
  const auto q = lesson["q"].get<Reals>(), k = lesson["k"].get<Reals>();
  const auto shares = ran.row<Reals>(0, "pair_scores");
  REQUIRE(shares.size() == 3);
  double still = 0;
  for (std::size_t c = 6; c < 16; ++c) still += q[c] * k[c];
  CHECK(agrees(ran.summary<double>("still_share"), still));
  double total = still;
  for (std::size_t i = 0; i < 3; ++i) {
    // RoFormer, eq. 12: the real part of q * conj(k) * exp(i * distance * inv_freq).
    const std::complex<double> turn = std::polar(1.0, 5 * std::pow(10000.0, -static_cast<double>(i) / 3));
    const double share = (std::complex(q[i], q[i + 3]) * std::conj(std::complex(k[i], k[i + 3])) * turn).real();
    CHECK(agrees(shares[i], share));
    total += share;
  }
  CHECK(agrees(ran.row<double>(0, "score"), total));
}

TEST_CASE("rope-score: equal vectors give the decay curve and RoFormer's bound") {
  const auto ran = run_experiment("rope-score", {{"vectors", "ones"},
                                                 {"head_dim", std::int64_t{128}},
                                                 {"distances", "0,1,2,5,10,20,50,100,150,200,250,500,1000,2000,4096"}});
  const auto bounds = golden("analytic_anchors.json")["roformer_bound_d128"];
  REQUIRE(ran.report.rows.count == static_cast<std::int64_t>(bounds.size()));
  for (std::int64_t i = 0; i < ran.report.rows.count; ++i) {
    const auto distance = ran.row<std::int64_t>(i, "distance");
    CAPTURE(distance);
    CHECK(std::abs(ran.row<double>(i, "decay_bound") - bounds[std::to_string(distance)].get<double>()) < 5.1e-5);
    double curve = 0;
    for (int j = 0; j < 64; ++j) curve += 2 * std::cos(static_cast<double>(distance) * std::pow(10000.0, -j / 64.0));
    CHECK(std::abs(ran.row<double>(i, "score") - curve) < 1e-10);
  }
  CHECK(ran.summary<double>("max_score") == 128);
  CHECK(ran.summary_is_null("max_spread_at_equal_distance"));
  CHECK(run_experiment("rope-score").row_is_null(0, "decay_bound"));
}

TEST_CASE("rope-score: a scaling keeps the score a matter of the gap, and its attention factor counts twice") {
  const auto yarn = [](double attention_factor) {
    return run_experiment("rope-score", {{"rope_type", "yarn"},
                                         {"factor", 4.0},
                                         {"original_max_position_embeddings", std::int64_t{128}},
                                         {"attention_factor", attention_factor}});
  };
  CHECK(yarn(1.0).summary<double>("max_spread_at_equal_distance") < 1e-13);
  CHECK(std::abs(yarn(1.0).row<double>(0, "score") + 4.719857073336664) > 1e-3);
  CHECK(agrees(yarn(1.5).row<double>(0, "score"), 2.25 * yarn(1.0).row<double>(0, "score")));
}

TEST_CASE("rope-score: a range of distances, backwards too, scores as the placements do") {
  const auto ran = run_experiment("rope-score", {{"distances", "5:-3:+-4"}});
  REQUIRE(ran.report.rows.count == 3);
  CHECK(agrees(ran.row<double>(0, "score"), -5.228169612714955));
  CHECK(agrees(ran.row<double>(2, "score"), -2.49936192332391));
  CHECK(ran.row<std::int64_t>(2, "key_position") == 3);
  CHECK(ran.row<std::int64_t>(2, "query_position") == 0);
}

TEST_CASE("rope-score: what cannot be is refused") {
  const auto placed = [](const char* text) { return refusal("rope-score", {{"placements", Texts{text}}}); };
  CHECK(placed("5:-2") == "[rope-score] a position must be 0 .. 2^53 but got -2.");
  CHECK(placed("5") == "[rope-score] placement '5' must be query:key, two positions as in 5:2.");
  CHECK(placed("a:2") == "[rope-score] placements: 'a' is not an integer.");
  CHECK(placed("5:2:1") != "");
  CHECK(placed("5:1e3") != "");
  CHECK(placed("9223372036854775807:0") != "");
  CHECK(refusal("rope-score", {{"placements", Texts{}}}) != "");
  CHECK(refusal("rope-score", {{"placements", Texts{"1:0"}}, {"distances", "1,2"}}) != "");
  CHECK(refusal("rope-score", {{"distances", "1:9223372036854775807:+9223372036854775806"}}) != "");
  CHECK(refusal("rope-score", {{"query", Reals{1, 2}}, {"key", Reals{1, 2, 3, 4}}}) ==
        "[rope-score] query has 2 values and key 4, but both need head_dim 2.");
  CHECK(refusal("rope-score", {{"head_dim", std::int64_t{7}}}) ==
        "[rope] rotary_dim must be even and 2 .. head_dim (7) but got 7.");
  CHECK(refusal("rope-score", {{"head_dim", INT64_MAX}}) != "");
  CHECK(refusal("rope-score", {{"rotary_dim", std::int64_t{18}}}) != "");
  CHECK(refusal("rope-score", {{"seed", std::int64_t{-1}}}) != "");
}
