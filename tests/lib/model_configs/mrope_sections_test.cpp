#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "poslab/model_configs/hf_config.h"

using namespace poslab;
using nlohmann::json;

namespace {

ModelConfig read(const std::string& model_type, const json& rope_parameters, int head_dim = 128) {
  const json config = {{"model_type", model_type},        {"hidden_size", 32 * head_dim},
                       {"num_attention_heads", 32},       {"head_dim", head_dim},
                       {"max_position_embeddings", 4096}, {"rope_parameters", rope_parameters}};
  return model_config(config, "c");
}

bool warns(const ModelConfig& config, const std::string& text) {
  return std::any_of(config.warnings.begin(), config.warnings.end(),
                     [&](const std::string& warning) { return warning.find(text) != std::string::npos; });
}

json sections(const json& list) { return {{"rope_type", "default"}, {"rope_theta", 1e6}, {"mrope_section", list}}; }

}  // namespace

TEST_CASE("sections of positions on several axes: form, sum and where they come from") {
  const ModelConfig blocks = read("qwen2_vl_text", sections({16, 24, 24}));
  CHECK(blocks.layers[0].multi_axis->word() == "mrope");
  CHECK(blocks.layers[0].mrope_section == std::vector<std::int64_t>{16, 24, 24});
  CHECK_FALSE(warns(blocks, "mrope_section"));
  const ModelConfig alternate = read("qwen3_vl_text", sections({24, 20, 20}));
  CHECK(alternate.layers[0].multi_axis->word() == "mrope_alternate");
  CHECK_FALSE(warns(alternate, "mrope_section"));
  CHECK(warns(read("qwen3_vl_text", sections({24, 20, 19})),
              "rope_parameters.mrope_section: sections 24 + 20 + 19 sum to 63, but rotary_dim / 2 is 64."));
  CHECK(read("llama", {{"rope_type", "default"}, {"rope_theta", 1e4}}).layers[0].mrope_section.empty());

  // A class that is not known says by mrope_interleaved how its pairs are dealt out, or nothing does.
  json given = sections({11, 11, 10});
  given["mrope_interleaved"] = true;
  const ModelConfig stranger = read("stranger", given, 64);
  CHECK(stranger.layers[0].multi_axis->word() == "mrope_alternate");
  CHECK_FALSE(warns(stranger, "has no effect"));
  CHECK(stranger.ignored.empty());
  const ModelConfig silent = read("stranger", sections({12, 10, 10}), 64);
  CHECK_FALSE(silent.layers[0].multi_axis);
  CHECK(warns(silent, "nothing says which pairs"));
  CHECK_FALSE(warns(silent, "sum to"));
  CHECK(
      warns(read("stranger", sections({12, 10, 9}), 64), "sections 12 + 10 + 9 sum to 31, but rotary_dim / 2 is 32."));

  for (const json& wrong : {json("16,24,24"), json::array(), json{16, -24, 24}, json{16.5, 24, 24}, json{1e300}}) {
    CAPTURE(wrong.dump());
    CHECK_THROWS_AS(read("qwen2_vl_text", sections(wrong)), std::invalid_argument);
  }
}
