#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "run_experiment.h"

using namespace poslab;

namespace {

// "value <- source" of a row, found by layer type and name.
std::string row(const RanExperiment& ran, const std::string& layer_type, const std::string& name) {
  for (std::int64_t i = 0; i < ran.report.rows.count; ++i) {
    if (ran.row<std::string>(i, "name") != name) continue;
    if (ran.row_is_null(i, "layer_type") ? !layer_type.empty() : ran.row<std::string>(i, "layer_type") != layer_type) {
      continue;
    }
    return ran.row<std::string>(i, "value") + " <- " + ran.row<std::string>(i, "source");
  }
  return "none";
}

bool any_has(const std::vector<std::string>& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(), [&](const auto& line) { return line.find(part) != line.npos; });
}

}  // namespace

TEST_CASE("inspect: every value of Llama 3.1 and where it came from") {
  const RanExperiment ran = run_experiment("inspect");
  CHECK(row(ran, "", "encoding") == "rope <- model_type \"llama\"");
  CHECK(row(ran, "", "head_dim") == "128 <- derived: hidden_size / num_attention_heads");
  CHECK(row(ran, "", "rope_theta") == "500000 <- rope_theta");
  CHECK(row(ran, "", "rope_type") == "llama3 <- rope_scaling.rope_type");
  CHECK(row(ran, "", "factor") == "8 <- rope_scaling.factor");
  CHECK(row(ran, "", "high_freq_factor") == "4 <- rope_scaling.high_freq_factor");
  CHECK(row(ran, "", "trained_length") == "8192 <- rope_scaling.original_max_position_embeddings");
  CHECK(ran.summary<std::int64_t>("trained_length") == 8192);
  CHECK(ran.summary<std::int64_t>("max_position_embeddings") == 131072);
  CHECK(ran.summary<std::vector<std::string>>("ignored").empty());
  CHECK(any_has(ran.summary<std::vector<std::string>>("warnings"), "Older spelling"));
  CHECK(ran.report.conclusion.find("Scaling: llama3, factor 8, trained at 8192 tokens") != std::string::npos);
}

TEST_CASE("inspect: rows of each layer type") {
  const RanExperiment ran = run_experiment("inspect", {{"model", std::string("gemma-3-4b")}});
  CHECK(row(ran, "full_attention", "rope_theta") == "1000000 <- rope_theta");
  CHECK(row(ran, "sliding_attention", "rope_theta") == "10000 <- rope_local_base_freq");
  CHECK(row(ran, "full_attention", "factor") == "8 <- rope_scaling.factor");
  CHECK(row(ran, "sliding_attention", "factor") == "none");
  CHECK(row(ran, "sliding_attention", "sliding_window") == "1024 <- sliding_window");
  CHECK(ran.summary<std::vector<std::string>>("layer_types") ==
        std::vector<std::string>{"full_attention", "sliding_attention"});
}

TEST_CASE("inspect: a model without RoPE, and what scores gain") {
  const RanExperiment gpt2 = run_experiment("inspect", {{"model", std::string("gpt-2")}});
  CHECK(gpt2.summary<std::string>("encoding") == "learned");
  CHECK(gpt2.summary<std::int64_t>("table_limit") == 1024);
  CHECK(gpt2.summary_is_null("rope_theta"));
  CHECK(gpt2.report.conclusion.find("ends at position 1023") != std::string::npos);

  const RanExperiment v3 = run_experiment("inspect", {{"model", std::string("deepseek-v3")}});
  CHECK(v3.summary<double>("attention_factor") == 1);
  CHECK(v3.summary<double>("softmax_multiplier") == doctest::Approx(1.8738542070926265).epsilon(1e-14));
  CHECK(v3.report.conclusion.find("scores are multiplied by 1.874") != std::string::npos);
  CHECK_THROWS_AS(run_experiment("inspect", {{"model", std::string("no such model")}}), std::invalid_argument);
}
