#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "gguf_bytes.h"
#include "golden.h"
#include "run_experiment.h"
#include "scratch.h"

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

TEST_CASE("inspect looks into the weights of a folder and compares them with its config") {
  const RanExperiment ran = run_experiment("inspect", {{"model", golden_path("llama_tiny/rope_half")}});
  CHECK(row(ran, "", "query_rows") == "32 = 4 heads of 8 <- model.layers.0.self_attn.q_proj.weight and 1 alike");
  CHECK(row(ran, "", "key_rows") == "16 = 2 heads of 8 <- model.layers.0.self_attn.k_proj.weight and 1 alike");
  CHECK(row(ran, "", "biases") == "none <- tensors of queries and keys");
  CHECK(row(ran, "", "layout") == "half <- model_type \"llama\"");
  CHECK(ran.summary<std::vector<std::string>>("weights") ==
        std::vector<std::string>{golden_path("llama_tiny/rope_half/model.safetensors")});
  CHECK(ran.summary<std::vector<std::string>>("dtypes").size() == 1);
  CHECK(ran.summary<std::vector<std::string>>("warnings").empty());

  // The same through the file itself, and what it says without a config.
  const std::string file = golden_path("llama_tiny/rope_half/model.safetensors");
  CHECK(row(run_experiment("inspect", {{"model", file}}), "", "key_rows").starts_with("16 = 2 heads of 8 <- "));
  const Scratch scratch;
  std::filesystem::copy(file, scratch.path("model.safetensors"));
  const RanExperiment alone = run_experiment("inspect", {{"model", scratch.path("")}});
  CHECK(alone.summary_is_null("encoding"));
  CHECK(row(alone, "", "key_rows") == "16 <- model.layers.0.self_attn.k_proj.weight and 1 alike");
  CHECK(alone.report.conclusion.find("no config.json beside these weights") != std::string::npos);
}

TEST_CASE("inspect: a folder with a GGUF file alone, and beside a config that differs") {
  const Scratch scratch;
  const std::string file = scratch.file(GgufBytes()
                                            .string("general.architecture", "llama")
                                            .u32("llama.block_count", 1)
                                            .u32("llama.embedding_length", 32)
                                            .u32("llama.attention.head_count", 4)
                                            .u32("llama.context_length", 64)
                                            .floats("blk.0.attn_q.weight", {1, 32}, std::vector<float>(32))
                                            .bytes(),
                                        "a.gguf");
  const RanExperiment ran = run_experiment("inspect", {{"model", scratch.path("")}});
  CHECK(ran.summary<std::string>("model_type") == "llama");
  CHECK(ran.summary<std::string>("layout") == "interleaved");
  CHECK(ran.summary<std::int64_t>("parameters") == 32);
  CHECK(row(ran, "", "query_rows") == "32 = 4 heads of 8 <- blk.0.attn_q.weight");
  scratch.file(R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 8, "num_hidden_layers": 1,
                   "max_position_embeddings": 64, "rope_theta": 10000})",
               "config.json");
  const auto warnings =
      run_experiment("inspect", {{"model", scratch.path("")}}).summary<std::vector<std::string>>("warnings");
  CHECK(any_has(warnings, "n_heads is 4 in " + file + " but 8 in "));
  CHECK(any_has(warnings, "blk.0.attn_q.weight has 32 rows, but 8 heads of 8 channels in "));
  // Several files: which is meant must be said.
  std::filesystem::copy(file, scratch.path("b.gguf"));
  std::filesystem::remove(scratch.path("config.json"));
  CHECK(refusal("inspect", {{"model", scratch.path("")}}).find("has no config.json and 2 GGUF files: name one of ") !=
        std::string::npos);
}

TEST_CASE("inspect: weights that are no more than a pickle are named, not read") {
  const Scratch scratch;
  scratch.file(R"({"model_type": "gpt2"})", "config.json");
  scratch.file("x", "pytorch_model.bin");
  const RanExperiment ran = run_experiment("inspect", {{"model", scratch.path("")}});
  CHECK(any_has(ran.summary<std::vector<std::string>>("warnings"), "are a PyTorch pickle, which is not read."));
  CHECK(ran.summary_is_null("parameters"));
}

TEST_CASE("inspect: sections of positions on several axes, and a sum that does not fit") {
  const Scratch scratch;
  const auto inspected = [&](const std::string& sections) {
    return run_experiment(
        "inspect", {{"model", scratch.file(R"({"model_type": "qwen3_vl_text", "hidden_size": 4096, "head_dim": 128,
          "num_attention_heads": 32, "max_position_embeddings": 4096, "rope_scaling": {"rope_type": "default",
          "mrope_interleaved": true, "mrope_section": )" +
                                               sections + "}}",
                                           "config.json")}});
  };
  const RanExperiment whole = inspected("[24, 20, 20]");
  CHECK(whole.summary<std::string>("multi_axis") == "mrope_alternate");
  CHECK(whole.summary<std::vector<std::int64_t>>("mrope_section") == std::vector<std::int64_t>{24, 20, 20});
  CHECK(row(whole, "", "mrope_section") == "[24,20,20] <- rope_scaling.mrope_section");
  CHECK(row(whole, "", "multi_axis") == "mrope_alternate <- rope_scaling.mrope_interleaved");
  CHECK(whole.report.conclusion.find(
            "Positions have 3 axes: sections of 24, 20, 20 pairs, in sum 64 of 64 (mrope_alternate: ") !=
        std::string::npos);
  const std::string problem = "sections 24 + 20 + 19 sum to 63, but rotary_dim / 2 is 64.";
  CHECK_FALSE(any_has(whole.summary<std::vector<std::string>>("warnings"), "sum to"));
  CHECK(any_has(inspected("[24, 20, 19]").summary<std::vector<std::string>>("warnings"), problem));
  CHECK(run_experiment("inspect").summary_is_null("mrope_section"));
}
