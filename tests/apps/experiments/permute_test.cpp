#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/evaluated_model.h"
#include "golden.h"
#include "poslab/models/checkpoint.h"
#include "run_experiment.h"
#include "scratch.h"
#include "shared_files.h"

using namespace poslab;

namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

TEST_CASE("permute without a file shows the order of a head's rows") {
  const auto ran = run_experiment("permute");
  CHECK(ran.summary<std::vector<std::int64_t>>("head_order") == std::vector<std::int64_t>{0, 4, 1, 5, 2, 6, 3, 7});
  CHECK(ran.summary_is_null("round_trip"));
  CHECK(ran.row<std::int64_t>(0, "moved_rows") == 24);
}

TEST_CASE("permute takes sizes and layout from the config beside the weights") {
  const Scratch scratch;
  const std::string there = scratch.path("there.safetensors"), back = scratch.path("back.safetensors");
  const auto ran = run_experiment("permute", {{"model", golden_path("llama_tiny/rope_half")}, {"save_weights", there}});
  CHECK(ran.summary<std::int64_t>("tensors") == 4);
  CHECK(ran.summary<std::int64_t>("resolved_n_kv_heads") == 2);
  CHECK(ran.summary<bool>("round_trip"));
  CHECK(bytes_of(there) == bytes_of(golden_path("llama_tiny/rope_half_permuted/model.safetensors")));
  // This one's config says rope_interleave.
  const auto returned =
      run_experiment("permute", {{"model", golden_path("llama_tiny/rope_half_permuted")}, {"save_weights", back}});
  CHECK(returned.summary<std::string>("resolved_from") == "interleaved");
  CHECK(bytes_of(back) == bytes_of(golden_path("llama_tiny/rope_half/model.safetensors")));
}

TEST_CASE("permuted weights of every family with RoPE give the same logits, and come back") {
  const auto families = [](const std::string& name) { return golden_path("families/" + name); };
  // Biases, norms of heads, q, k and v in one tensor of which a part turns, grouped key heads.
  for (const std::string name : {"mistral", "qwen2", "qwen3", "gemma3", "gpt_neox", "gpt_neox_serial"}) {
    CAPTURE(name);
    const Scratch scratch;
    const std::string folder = scratch.path("turned"), weights = folder + "/model.safetensors";
    std::filesystem::create_directory(folder);
    const auto ran = run_experiment("permute", {{"model", families(name)}, {"save_weights", weights}});
    CHECK(ran.summary<bool>("round_trip"));
    auto config = golden("families/" + name + "/config.json");
    const std::vector<std::int64_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6};
    const auto logits = [&] {
      std::ofstream(folder + "/config.json") << config;
      return load_checkpoint<double>(folder).model.logits(tokens, 1);
    };
    const auto off = [](const std::vector<double>& a, const std::vector<double>& b) {
      double most = 0;
      for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
      return most;
    };
    const auto own = load_checkpoint<double>(families(name)).model.logits(tokens, 1);
    CHECK(off(logits(), own) > 1e-3);  // the config does not say so yet
    config["rope_interleave"] = true;
    CHECK(off(logits(), own) < 1e-12);
    const std::string back = scratch.path("back.safetensors");
    run_experiment("permute", {{"model", folder}, {"save_weights", back}});
    CHECK(bytes_of(back) == bytes_of(families(name) + "/model.safetensors"));
  }
}

TEST_CASE("permute refuses what it cannot do") {
  const Scratch scratch;
  const std::string file = golden_path("llama_tiny/rope_half/model.safetensors"), to = scratch.path("x");
  CHECK(refusal("permute", {{"model", file}}) ==
        "[permute] model and save_weights go together: the file to read and the file to write.");
  CHECK(refusal("permute", {{"model", file}, {"save_weights", to}, {"n_heads", std::int64_t{8}}})
            .find("q_proj.weight has 32 rows but 8 heads of 8 channels need 64") != std::string::npos);
  std::filesystem::copy(file, scratch.path("alone.safetensors"));
  CHECK(refusal("permute", {{"model", scratch.path("alone.safetensors")}, {"save_weights", to}}) ==
        "[permute] no config.json says n_heads: give it.");
  CHECK(refusal("permute", {{"model", golden_path("llama_tiny/none")}, {"save_weights", to}}).find("has no RoPE") !=
        std::string::npos);
}

TEST_CASE("permute --detect says by loss which layout the weights want") {
  const Scratch scratch;
  const std::string half = scratch.path("half"), turned = scratch.path("turned");
  {
    const auto shared = load_evaluated_model(std::nullopt, Task::copy, {});
    const EvaluatedModel& small = *shared;
    CheckpointFolder(half).save<float>(small.model, {{"task", "copy"}}, nullptr);
  }
  const auto detect = [](const std::string& model) {
    return run_experiment("permute", {{"model", model}, {"detect", true}, {"eval_tokens", std::int64_t{2048}}});
  };
  const auto first = detect(half);
  CHECK(first.summary<std::string>("wanted_layout") == "half");
  CHECK(first.summary<double>("half_nll") < first.summary<double>("interleaved_nll"));
  CHECK(first.summary<std::int64_t>("text_tokens") > 500);
  CHECK(first.report.conclusion.find("as the model says") != std::string::npos);

  // The same weights, permuted without a word to the config.
  std::filesystem::create_directory(turned);
  run_experiment("permute", {{"model", half}, {"save_weights", turned + "/model.safetensors"}});
  std::filesystem::copy(half + "/config.json", turned + "/config.json");
  const auto second = detect(turned + "/model.safetensors");
  CHECK(second.summary<std::string>("wanted_layout") == "interleaved");
  CHECK(second.summary<double>("interleaved_nll") == doctest::Approx(first.summary<double>("half_nll")).epsilon(1e-5));
  CHECK(second.report.conclusion.find("but the model says half") != std::string::npos);

  CHECK(refusal("permute", {{"detect", true}}).find("[permute] detect needs a model") == 0);
  CHECK(refusal("permute", {{"detect", true}, {"model", half}, {"save_weights", scratch.path("x")}})
            .find("[permute] detect writes nothing") == 0);
  CHECK(refusal("permute", {{"text", scratch.path("x")}}) == "[permute] tokens and text are for detect.");
}

// The project ships none of these models.
TEST_CASE("permute --detect on real models: halves, GGUF's neighbours, and a file of llama2.c") {
  const auto stories = shared_file("models/stories260K"), baby = shared_file("models/babyllama105");
  if (!stories || !baby) return;
  const auto wanted = [](const std::string& model, const std::string& tokens) {
    return run_experiment("permute",
                          {{"model", model}, {"tokens", tokens}, {"detect", true}, {"eval_tokens", std::int64_t{512}}})
        .summary<std::string>("wanted_layout");
  };
  CHECK(wanted(*stories, *stories + "/tokens.npy") == "half");
  CHECK(wanted(*stories + "/stories260K.gguf", *stories + "/tokens.npy") == "interleaved");
  CHECK(wanted(*baby, *baby + "/tokens.npy") == "interleaved");
  // A folder that holds a GGUF file alone means that file.
  const Scratch scratch;
  std::filesystem::copy(*stories + "/stories260K.gguf", scratch.path("a.gguf"));
  CHECK(wanted(scratch.path(""), *stories + "/tokens.npy") == "interleaved");
}
