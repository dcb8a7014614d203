#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <sstream>

#include "golden.h"
#include "poslab/model_configs/hf_config.h"
#include "poslab/rope/ggml.h"
#include "run_experiment.h"

using namespace poslab;
using nlohmann::json;

namespace {

std::map<std::string, std::int64_t> rows_by_method(const RanExperiment& ran) {
  std::map<std::string, std::int64_t> rows;
  for (std::int64_t i = 0; i < ran.report.rows.count; ++i) rows[ran.row<std::string>(i, "method")] = i;
  return rows;
}

// The value after a flag in a command line.
std::string after(const std::string& line, const std::string& flag) {
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word == flag && words >> word) return word;
  }
  return "";
}

GgmlRope from_flags(const std::string& line, double theta, std::int64_t rotary_dim) {
  GgmlRope rope;
  rope.n_dims = rotary_dim;
  rope.freq_base = theta;
  if (const std::string v = after(line, "--rope-freq-base"); !v.empty()) rope.freq_base = std::stod(v);
  if (const std::string v = after(line, "--rope-freq-scale"); !v.empty()) rope.freq_scale = std::stod(v);
  if (const std::string v = after(line, "--yarn-orig-ctx"); !v.empty()) rope.n_ctx_orig = std::stoll(v);
  if (const std::string v = after(line, "--yarn-attn-factor"); !v.empty()) rope.attn_factor = std::stod(v);
  if (after(line, "--rope-scaling") == "yarn") rope.ext_factor = 1;
  return rope;
}

double distance(const RopeFrequencies& a, const RopeFrequencies& b) {
  REQUIRE(a.inv_freq.size() == b.inv_freq.size());
  double worst = std::abs(a.attention_factor / b.attention_factor - 1);
  for (std::size_t i = 0; i < a.inv_freq.size(); ++i) {
    worst = std::max(worst, std::abs(a.inv_freq[i] / b.inv_freq[i] - 1));
  }
  return worst;
}

json llama(double theta) {
  return {{"model_type", "llama"}, {"hidden_size", 4096}, {"num_attention_heads", 32}, {"rope_theta", theta}};
}

}  // namespace

TEST_CASE("plan: what is pasted into config.json turns as extend says, for every method") {
  const Settings target = {{"seq_len", std::int64_t{32768}}};
  const RanExperiment plan = run_experiment("plan", target);
  const auto rows = rows_by_method(plan);
  for (const char* method : {"linear", "ntk", "ntk_by_parts", "dynamic", "yarn", "llama3", "abf"}) {
    CHECK(rows.count(method) == 1);
  }
  CHECK(rows.count("longrope") == 0);
  for (const auto& [method, i] : rows) {
    CAPTURE(method);
    if (method == "ntk_by_parts") {
      CHECK(plan.row_is_null(i, "hf_rope_scaling"));
      CHECK(plan.row_is_null(i, "llama_cpp_flags"));
      CHECK(plan.row_is_null(i, "vllm_override"));
      continue;
    }
    json config = llama(10000);
    config["rope_scaling"] = json::parse(plan.row<std::string>(i, "hf_rope_scaling"));
    config["max_position_embeddings"] = plan.row<std::int64_t>(i, "hf_max_position_embeddings");
    const ModelConfig model = model_config(config, method);
    const RopeFrequencies pasted = rope_frequencies(layer_positions(model, std::nullopt).rope, 32768);
    CHECK(pasted.attention_factor == doctest::Approx(plan.row<double>(i, "cos_sin_multiplier")).epsilon(1e-14));
    if (method == "abf") continue;
    const RanExperiment extend = run_experiment("extend", {{"rope_type", method}, {"seq_len", std::int64_t{32768}}});
    for (std::int64_t pair = 0; pair < 64; ++pair) {
      CHECK(extend.row<double>(pair, "scaled_inv_freq") ==
            doctest::Approx(pasted.inv_freq[static_cast<std::size_t>(pair)]).epsilon(1e-12));
    }

    // llama.cpp's flags, through ggml's own formula; llama3's factors are in the GGUF file, not in flags.
    const auto flags = plan.row<std::string>(i, "llama_cpp_flags");
    CHECK(after(flags, "--ctx-size") == "32768");
    if (method != "llama3") CHECK(distance(ggml_frequencies(from_flags(flags, 10000, 128)), pasted) <= 1e-12);

    // vLLM's parameters carry the base themselves; its dynamic type has another formula and is not used.
    const auto vllm = plan.row<std::string>(i, "vllm_override");
    const auto first = vllm.find('\'') + 1, last = vllm.rfind('\'');
    json overridden = llama(1);
    overridden["max_position_embeddings"] = 4096;
    overridden.update(json::parse(vllm.substr(first, last - first)));
    CHECK(overridden["rope_parameters"]["rope_type"] != "dynamic");
    overridden.erase("rope_theta");
    const ModelConfig served = model_config(overridden, method);
    CHECK(distance(rope_frequencies(layer_positions(served, std::nullopt).rope, 32768), pasted) <= 1e-12);
  }
}

TEST_CASE("plan: the new base of ntk and of abf") {
  const RanExperiment plan = run_experiment("plan", {{"seq_len", std::int64_t{16384}}});
  const auto rows = rows_by_method(plan);
  const auto theta = [&](const char* method) {
    return json::parse(plan.row<std::string>(rows.at(method), "hf_rope_scaling")).at("rope_theta").get<double>();
  };
  CHECK(theta("ntk") == doctest::Approx(40889.94243248622).epsilon(1e-12));
  CHECK(theta("abf") == doctest::Approx(71738.43620009991).epsilon(1e-12));  // analytic_anchors.json, liu_betas
  CHECK(plan.summary<double>("resolved_factor") == 4);
  CHECK(plan.row<double>(rows.at("linear"), "fastest_multiplier") == 0.25);
  CHECK(plan.row<double>(rows.at("yarn"), "fastest_multiplier") == 1);
  CHECK(plan.row<std::string>(rows.at("linear"), "leaving_pairs").empty());
}

TEST_CASE("plan: an attention factor replaces in transformers and multiplies in llama.cpp and vLLM") {
  const RanExperiment plan =
      run_experiment("plan", {{"rope_type", std::string("yarn")}, {"factor", 64.0}, {"attention_factor", 1.0}});
  REQUIRE(plan.report.rows.count == 1);
  CHECK(plan.row<double>(0, "cos_sin_multiplier") == 1);
  const double converted = 1 / 1.4158883083359672;  // 0.1 ln 64 + 1
  CHECK(std::stod(after(plan.row<std::string>(0, "llama_cpp_flags"), "--yarn-attn-factor")) ==
        doctest::Approx(converted).epsilon(1e-14));
  CHECK(plan.row<std::string>(0, "hf_rope_scaling").find("\"attention_factor\":1.0") != std::string::npos);
  const auto vllm = plan.row<std::string>(0, "vllm_override");
  CHECK(vllm.find("\"attn_factor\":0.706") != std::string::npos);
  CHECK(vllm.find("attention_factor") == std::string::npos);
  CHECK(plan.row<std::string>(0, "note").find("multiply") != std::string::npos);
}

TEST_CASE("plan: what flags cannot say is said, and a described model must name its length") {
  const RanExperiment exact =
      run_experiment("plan", {{"rope_type", std::string("yarn")}, {"truncate", false}, {"factor", 32.0}});
  CHECK(exact.row_is_null(0, "llama_cpp_flags"));
  CHECK(exact.row<std::string>(0, "hf_rope_scaling").find("\"truncate\":false") != std::string::npos);
  CHECK(refusal("plan", {{"rope_theta", 500000.0}}).find("original_max_position_embeddings") != std::string::npos);
  CHECK(refusal("plan", {{"rope_type", std::string("longrope")}}).find("short_factor") != std::string::npos);
  CHECK(refusal("plan", {{"factor", 0.5}}).find("factor") != std::string::npos);
  const RanExperiment enough = run_experiment("plan", {{"seq_len", std::int64_t{2048}}});
  CHECK(enough.summary<double>("resolved_factor") == 1);
}
