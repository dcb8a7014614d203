#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "experiments/experiment.h"
#include "golden.h"

namespace poslab {
namespace {

using Settings = std::map<std::string, Value>;

Report run_precision(const Settings& settings, int threads = 2) {
  const Experiment& precision = *find_experiment("precision");
  Record params;
  for (const FieldSpec& spec : precision.params) {
    const auto set = settings.find(spec.name);
    params.push_back(set == settings.end() ? spec.fallback : set->second);
  }
  RunContext context;
  context.threads = threads;
  return precision.run(params, context);
}

std::size_t index_of(const std::vector<FieldSpec>& specs, const std::string& name) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == name) return i;
  }
  throw std::logic_error("no field " + name);
}

std::vector<double> column(const Report& report, const std::string& name) {
  const std::size_t index = index_of(find_experiment("precision")->row, name);
  std::vector<double> values;
  Record row;
  for (std::int64_t i = 0; i < report.rows.count; ++i) {
    report.rows.fill(i, row);
    const Value& value = row[index];
    values.push_back(std::holds_alternative<double>(value)         ? std::get<double>(value)
                     : std::holds_alternative<std::int64_t>(value) ? static_cast<double>(std::get<std::int64_t>(value))
                                                                   : std::nan(""));
  }
  return values;
}

// NaN stands for null on both sides.
void check_close(const std::vector<double>& got, const nlohmann::json& wanted, double relative) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    if (wanted[i].is_null()) {
      CHECK(std::isnan(got[i]));
    } else {
      CHECK(std::abs(got[i] - wanted[i].get<double>()) <= relative * wanted[i].get<double>());
    }
  }
}

const std::map<std::string, std::string> table_profiles = {{"fp32_glibc", "hf_f32"},
                                                           {"fp32_cr_freq", "f32_inv_freq"},
                                                           {"f64angle_cast32_sinf", "f32_angle"},
                                                           {"f64_all_cast32", "f32_table"},
                                                           {"bf16_cast_cossin", "bf16_table"},
                                                           {"bf16_cast_cossin_f64ref", "f64+bf16_table"},
                                                           {"bf16_angle_cast", "bf16_angle"},
                                                           {"bf16_freq_cast", "bf16_inv_freq"},
                                                           {"bf16_all_in_type", "bf16_all"},
                                                           {"fp16_cast_cossin", "f16_table"},
                                                           {"fp16_cast_cossin_f64ref", "f64+f16_table"},
                                                           {"fp16_angle_cast", "f16_angle"},
                                                           {"fp16_freq_cast", "f16_inv_freq"},
                                                           {"fp16_all_in_type", "f16_all"}};

const std::map<std::string, std::string> score_profiles = {
    {"fp32_torch_table", "hf_f32"},
    {"fp32_cr_freq", "f32_inv_freq"},
    {"fp32_f64angle_cast32", "f32_angle"},
    {"fp32_best_table(f64_all_cast32)", "f32_table"},
    {"bf16_HF(bf16 cos/sin, bf16 rotate)", "bf16_table"},
    {"bf16_fp32rotate(fp32 cos/sin & rotate, then bf16)", "bf16_vectors"},
    {"bf16_fp32rotate_best_table", "f32_table+bf16_vectors"},
    {"bf16_angle_cast", "bf16_angle"},
    {"bf16_freq_cast", "bf16_inv_freq"},
    {"bf16_all_in_type", "bf16_all"},
    {"fp16_HF(fp16 cos/sin, fp16 rotate)", "f16_table"},
    {"fp16_fp32rotate(fp32 cos/sin & rotate, then fp16)", "f16_vectors"},
    {"fp16_fp32rotate_best_table", "f32_table+f16_vectors"},
    {"fp16_angle_cast", "f16_angle"},
    {"fp16_freq_cast", "f16_inv_freq"},
    {"fp16_all_in_type", "f16_all"}};

}  // namespace

TEST_CASE("precision: errors of cos and sin are numpy's and mpmath's") {
  const auto file = golden("precision.json");
  for (const auto& [base, errors] : file.at("max_abs_err").items()) {
    for (const auto& [name, profile] : table_profiles) {
      CAPTURE(base);
      CAPTURE(name);
      const Report report = run_precision({{"profiles", std::vector<std::string>{profile}},
                                           {"positions", file.at("positions").get<std::vector<std::int64_t>>()},
                                           {"rope_theta", std::stod(base)},
                                           {"head_dim", file.at("d").get<std::int64_t>()},
                                           {"n_scores", std::int64_t{0}}});
      check_close(column(report, "max_abs_error"), errors.at(name), 1e-3);
      auto worst_pair = file.at("worst_pair").at(base).at(name);
      for (std::size_t i = 0; i < worst_pair.size(); ++i) {
        if (errors.at(name)[i].is_null()) worst_pair[i] = nullptr;  // the file keeps the worst finite one
      }
      check_close(column(report, "worst_pair"), worst_pair, 0);
    }
  }
}

TEST_CASE("precision: scores drift as numpy's do") {
  const auto scores = golden("precision.json").at("rope_score");
  for (const auto& [base, entry] : scores.at("bases").items()) {
    for (const auto& [name, profile] : score_profiles) {
      CAPTURE(base);
      CAPTURE(name);
      const Report report = run_precision({{"profiles", std::vector<std::string>{profile}},
                                           {"positions", scores.at("offsets").get<std::vector<std::int64_t>>()},
                                           {"rope_theta", std::stod(base)},
                                           {"layout", std::string("half")},
                                           {"gap", scores.at("gap").get<std::int64_t>()},
                                           {"n_scores", scores.at("pairs").get<std::int64_t>()},
                                           {"seed", scores.at("seed").get<std::int64_t>()}});
      check_close(column(report, "score_drift"), entry.at(name).at("drift_max"), 0.1);
      check_close(column(report, "score_error"), entry.at(name).at("max_err"), 0.1);
      check_close(column(report, "score_error_rms"), entry.at(name).at("rms_err"), 0.1);
    }
  }
}

TEST_CASE("precision: the defaults tell the story of the lesson") {
  const Report report = run_precision({});
  const Experiment& precision = *find_experiment("precision");
  const auto profiles =
      std::get<std::vector<std::string>>(precision.params[index_of(precision.params, "profiles")].fallback);
  const auto distinct =
      std::get<std::vector<std::int64_t>>(report.summary[index_of(precision.summary, "distinct_positions")]);
  const auto collision = std::get<std::vector<double>>(report.summary[index_of(precision.summary, "first_collision")]);
  REQUIRE(distinct.size() == profiles.size());
  REQUIRE(collision.size() == profiles.size());
  for (std::size_t f = 0; f < profiles.size(); ++f) {
    CAPTURE(profiles[f]);
    if (profiles[f] == "bf16_position") {
      CHECK(distinct[f] == 897);
      CHECK(collision[f] == 256);
    } else if (profiles[f] != "bf16_angle") {
      CHECK(distinct[f] == 8192);
      CHECK(std::isnan(collision[f]));
    }
  }
  CHECK(report.conclusion.find("bf16_position keeps 897 of the first 8192") != std::string::npos);
  REQUIRE(report.pictures.size() == 1);
  CHECK(report.pictures[0].series.size() == profiles.size());
}

TEST_CASE("precision: the angle's error is the reports'") {
  // J03: 5.009 rad at 4095 with inv_freq in bf16.
  const Report report = run_precision(
      {{"profiles", std::vector<std::string>{"bf16_inv_freq"}}, {"positions", std::vector<std::int64_t>{4095}}});
  CHECK(column(report, "max_angle_error")[0] == doctest::Approx(5.009).epsilon(1e-3));
}

TEST_CASE("precision: rows do not depend on the thread count, and scores can be left out") {
  const Report one = run_precision({}, 1);
  const Report three = run_precision({}, 3);
  CHECK(one.summary[0] == three.summary[0]);
  for (const char* name : {"max_abs_error", "score_drift", "score_error", "score_error_rms"}) {
    CHECK(column(one, name) == column(three, name));
  }
  const Report without = run_precision({{"n_scores", std::int64_t{0}}});
  CHECK(without.rows.columns.size() == 5);
  CHECK(std::isnan(column(without, "score_drift")[0]));
  CHECK(run_precision({{"positions", std::vector<std::int64_t>{}}}).rows.count == 0);
}

TEST_CASE("precision: bad input is refused by name") {
  const auto refuses = [](const Settings& settings, const char* text) {
    CHECK_THROWS_WITH_AS(run_precision(settings), doctest::Contains(text), std::invalid_argument);
  };
  refuses({{"profiles", std::vector<std::string>{}}}, "profiles");
  refuses({{"profiles", std::vector<std::string>{"f65"}}}, "unknown profile 'f65'");
  refuses({{"positions", std::vector<std::int64_t>{-1}}}, "positions");
  refuses({{"positions", std::vector<std::int64_t>{(std::int64_t{1} << 53) - 2}}}, "positions");
  refuses({{"gap", std::int64_t{-3}}}, "gap");
  refuses({{"head_dim", std::int64_t{7}}}, "head_dim");
  refuses({{"head_dim", std::int64_t{0}}}, "head_dim");
  refuses({{"rope_theta", 0.0}}, "theta");
  refuses({{"n_scores", std::int64_t{-1}}}, "n_scores");
  refuses({{"n_scores", std::int64_t{1} << 40}}, "n_scores");
  refuses({{"seq_len", std::int64_t{0}}}, "seq_len");
  refuses({{"seed", std::int64_t{-1}}}, "seed");
}

}  // namespace poslab
