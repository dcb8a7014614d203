#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "golden.h"
#include "poslab/rope/rope.h"
#include "poslab/rope/scalings.h"
#include "run_experiment.h"

using namespace poslab;

namespace {

std::int64_t count(const RanExperiment& ran, std::string_view name) { return ran.summary<std::int64_t>(name); }
double real(const RanExperiment& ran, std::string_view name) { return ran.summary<double>(name); }

}  // namespace

TEST_CASE("extend without flags: yarn from 4096 to 16384 on Llama-2's pairs") {
  const RanExperiment ran = run_experiment("extend");
  CHECK(ran.summary<std::string>("resolved_rope_type") == "yarn");
  CHECK(real(ran, "resolved_factor") == 4);
  CHECK(count(ran, "target_length") == 16384);
  REQUIRE(ran.report.rows.count == 64);
  // analytic_anchors.json, yarn at d 128, base 1e4, L 4096, s 4.
  const auto anchors = golden("analytic_anchors.json");
  for (const auto& anchor : anchors.at("yarn")) {
    if (anchor.at("s") != 4 || anchor.at("L") != 4096) continue;
    const auto& counts = anchor.at("code_ramp_counts");
    CHECK(count(ran, "kept") == counts.at("kept").get<std::int64_t>());
    CHECK(count(ran, "blended") == counts.at("ramp").get<std::int64_t>());
    CHECK(count(ran, "stretched") == counts.at("interpolated").get<std::int64_t>());
    for (std::int64_t i = 0; i < 64; ++i) {
      CHECK(ran.row<double>(i, "multiplier") ==
            doctest::Approx(anchor.at("code_mult").at(static_cast<std::size_t>(i)).get<double>()).epsilon(1e-5));
    }
  }
  CHECK(real(ran, "attention_factor") == doctest::Approx(1.138629436111989).epsilon(1e-14));
  CHECK(real(ran, "logit_multiplier") == doctest::Approx(1.138629436111989 * 1.138629436111989).epsilon(1e-14));
  CHECK(ran.summary_is_null("effective_theta"));
  CHECK(count(ran, "uncovered") == 0);
}

TEST_CASE("extend: unscaled pairs that made no whole turn leave the trained range at its end") {
  const RanExperiment ran = run_experiment("extend", {{"rope_type", std::string("default")}});
  CHECK(count(ran, "kept") == 64);
  CHECK(count(ran, "uncovered") == 18);  // analytic_anchors.json: Llama-2 has 18 pairs with wavelength above 4096
  CHECK(real(ran, "first_uncovered_position") == 4096);
  CHECK(real(ran, "score_change") == 0);
  const std::vector<double> w = rope_inv_freq(128, 10000);
  for (std::int64_t i : {0, 30, 63}) {
    const double frequency = w[static_cast<std::size_t>(i)];
    CHECK(ran.row<double>(i, "inv_freq") == frequency);
    CHECK(ran.row<double>(i, "wavelength") == doctest::Approx(2 * std::numbers::pi / frequency));
    CHECK(ran.row<double>(i, "turns_in_training") == doctest::Approx(4096 * frequency / (2 * std::numbers::pi)));
    CHECK(ran.row<double>(i, "max_angle_trained") == doctest::Approx(4095 * frequency));
    CHECK(ran.row<double>(i, "max_angle_target") == doctest::Approx(16383 * frequency));
    CHECK(ran.row<bool>(i, "covered") == (i < 46));
  }
}

TEST_CASE("extend: interpolation covers exactly factor times the trained length") {
  const Settings linear = {{"rope_type", std::string("linear")}, {"factor", 4.0}};
  Settings exact = linear, beyond = linear;
  exact.emplace_back("seq_len", std::int64_t{16384});
  beyond.emplace_back("seq_len", std::int64_t{16385});
  const RanExperiment inside = run_experiment("extend", exact);
  CHECK(count(inside, "stretched") == 64);
  CHECK(count(inside, "uncovered") == 0);
  CHECK(real(inside, "first_uncovered_position") == 16384);
  CHECK(count(run_experiment("extend", beyond), "uncovered") == 18);
}

TEST_CASE("extend: the base that ntk and dynamic put in place, and what dynamic says of its length") {
  const RanExperiment ntk = run_experiment("extend", {{"rope_type", std::string("ntk")}, {"factor", 8.0}});
  CHECK(real(ntk, "effective_theta") == doctest::Approx(82684.62264056221).epsilon(1e-12));
  CHECK(ntk.row<std::string>(0, "region") == "kept");
  CHECK(ntk.row<std::string>(1, "region") == "blended");
  CHECK(ntk.row<std::string>(63, "region") == "stretched");
  const Settings dynamic = {
      {"rope_type", std::string("dynamic")}, {"factor", 2.0}, {"original_max_position_embeddings", std::int64_t{2048}}};
  const std::pair<std::int64_t, double> bases[] = {{4096, 30527.7367488067}, {8192, 72195.86008650938}};
  for (const auto& [length, theta] : bases) {
    Settings at = dynamic;
    at.emplace_back("seq_len", length);
    const RanExperiment ran = run_experiment("extend", at);
    CHECK(real(ran, "effective_theta") == doctest::Approx(theta).epsilon(1e-12));
    CHECK(ran.summary<bool>("depends_on_seq_len"));
    CHECK(ran.report.conclusion.find("Depends on seq_len") != std::string::npos);
  }
  Settings within = dynamic;
  within.emplace_back("seq_len", std::int64_t{100});
  CHECK(run_experiment("extend", within).summary_is_null("effective_theta"));
}

TEST_CASE("extend: Llama 3's three regions for the small models") {
  const RanExperiment ran = run_experiment("extend", {{"rope_type", std::string("llama3")},
                                                      {"head_dim", std::int64_t{64}},
                                                      {"rope_theta", 500000.0},
                                                      {"factor", 32.0},
                                                      {"original_max_position_embeddings", std::int64_t{8192}}});
  CHECK(count(ran, "kept") == 15);
  CHECK(count(ran, "blended") == 3);
  CHECK(count(ran, "stretched") == 14);
  CHECK(ran.row<double>(15, "scaled_inv_freq") == doctest::Approx(0.00129054793).epsilon(1e-8));
}

TEST_CASE("extend: a plain change of base, and pairs that stand still") {
  const RanExperiment abf = run_experiment("extend", {{"rope_type", std::string("default")},
                                                      {"rope_theta", 500000.0},
                                                      {"trained_rope_theta", 10000.0},
                                                      {"original_max_position_embeddings", std::int64_t{4096}}});
  CHECK(real(abf, "effective_theta") == 500000);
  CHECK(abf.row<double>(32, "inv_freq") == doctest::Approx(0.01));
  CHECK(abf.row<double>(32, "scaled_inv_freq") == doctest::Approx(0.00141421).epsilon(1e-5));

  const RanExperiment still = run_experiment(
      "extend", {{"rope_type", std::string("proportional")}, {"partial_rotary_factor", 0.25}, {"factor", 2.0}});
  CHECK(still.row<std::string>(15, "region") == "stretched");
  CHECK(still.row_is_null(16, "multiplier"));
  CHECK(still.row_is_null(16, "region"));
  CHECK(still.row_is_null(16, "wavelength"));
  CHECK(count(still, "kept") + count(still, "blended") + count(still, "stretched") == 16);
}

TEST_CASE("extend: factor 1 leaves every pair alone under every method") {
  const Experiment* extend = find_experiment("extend");
  REQUIRE(extend);
  for (const FieldSpec& spec : extend->params) {
    if (spec.name != "rope_type") continue;
    for (const std::string& word : spec.words) {
      CAPTURE(word);
      const RopeType type = RopeType::from_word(word);
      // These two change frequencies whatever the factor.
      if (type == hope_scaling || type == resonance_scaling) continue;
      const RanExperiment ran = run_experiment("extend", {{"rope_type", word},
                                                          {"factor", 1.0},
                                                          {"seq_len", std::int64_t{4096}},
                                                          {"short_factor", std::vector<double>(64, 1.0)},
                                                          {"long_factor", std::vector<double>(64, 1.0)}});
      CHECK(count(ran, "kept") == 64);
      CHECK(real(ran, "logit_multiplier") == 1);
      CHECK(real(ran, "score_change") <= 1e-12);
    }
  }
}

TEST_CASE("extend: a sweep over all types leaves out longrope, unless its lists are given") {
  const Experiment* extend = find_experiment("extend");
  REQUIRE(extend->excluded);
  Record params;
  std::size_t type = 0, lists = 0;
  for (std::size_t i = 0; i < extend->params.size(); ++i) {
    params.push_back(extend->params[i].fallback);
    if (extend->params[i].name == "rope_type") type = i;
    if (extend->params[i].name == "short_factor") lists = i;
  }
  for (const std::string& word : extend->params[type].words) {
    params[type] = word;
    CHECK(extend->excluded(params).empty() == (word != "longrope"));
  }
  params[type] = std::string("longrope");
  params[lists] = params[lists + 1] = std::vector<double>(64, 2.0);
  CHECK(extend->excluded(params).empty());
}
