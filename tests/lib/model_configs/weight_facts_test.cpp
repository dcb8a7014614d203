#include "poslab/model_configs/weight_facts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gguf_bytes.h"
#include "scratch.h"

using namespace poslab;

namespace {

// The facts of zero tensors of these names and shapes, beside a config.json.
WeightFacts facts_of(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& tensors,
                     const std::string& config) {
  const Scratch scratch;
  std::vector<float> zeros(1 << 12);
  std::vector<SafetensorsEntry<float>> entries;
  for (const auto& [name, shape] : tensors) {
    std::size_t size = 1;
    for (auto n : shape) size *= static_cast<std::size_t>(n);
    entries.push_back({name, shape, std::span<const float>(zeros).first(size)});
  }
  write_safetensors<float>(scratch.path("model.safetensors"), entries, {});
  scratch.file(config, "config.json");
  const ModelConfig read = load_model_config(scratch.path("config.json"));
  return weight_facts(SafetensorsFile(scratch.path("model.safetensors")), &read);
}

std::string value(const WeightFacts& facts, const std::string& name) {
  for (const auto& fact : facts.facts) {
    if (fact.name == name) return fact.value;
  }
  return "none";
}

const std::string llama = R"({"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 64, "rope_theta": 10000})";

}  // namespace

TEST_CASE("weight facts: rows, biases and norms against the config's heads") {
  const WeightFacts facts = facts_of({{"model.layers.0.self_attn.q_proj.weight", {32, 4}},
                                      {"model.layers.1.self_attn.q_proj.weight", {32, 4}},
                                      {"model.layers.0.self_attn.q_proj.bias", {32}},
                                      {"model.layers.0.self_attn.k_proj.weight", {16, 4}},
                                      {"model.layers.1.self_attn.k_proj.weight", {32, 4}},
                                      {"model.layers.0.self_attn.q_norm.weight", {8}},
                                      {"model.layers.0.self_attn.k_norm.weight", {16}},
                                      {"vision_tower.layers.0.q_proj.weight", {3, 3}}},
                                     llama);
  CHECK(facts.tensors == 8);
  CHECK(facts.parameters == 128 + 128 + 32 + 64 + 128 + 8 + 16 + 9);
  CHECK(facts.types == std::vector<std::string>{"F32: 8 tensors, 513 parameters"});
  CHECK(value(facts, "n_layers") == "2");
  CHECK(value(facts, "query_rows") == "32 = 4 heads of 8");
  CHECK(value(facts, "biases") == "q_proj");
  CHECK(value(facts, "query_norm") == "8, one for each channel of a head");
  CHECK(value(facts, "key_norm") == "16, one for each channel of all heads");
  REQUIRE(facts.differences.size() == 1);
  CHECK(facts.differences[0].find("model.layers.1.self_attn.k_proj.weight has 32 rows, but 2 heads of 8 channels") ==
        0);
}

TEST_CASE("weight facts: q, k and v together, GPT-2's the other way round; a table; layers that are missing") {
  const WeightFacts phi = facts_of({{"model.layers.0.self_attn.qkv_proj.weight", {64, 4}}},
                                   R"({"model_type": "phi3", "hidden_size": 32, "num_attention_heads": 4,
      "num_key_value_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 64, "rope_theta": 10000})");
  CHECK(value(phi, "fused_rows") == "64 = 8 heads of 8, q, k and v together");
  REQUIRE(phi.differences.size() == 1);
  CHECK(phi.differences[0].find("The last attention is in layer 0, but ") == 0);

  const std::string gpt2 = R"({"model_type": "gpt2", "n_embd": 32, "n_head": 4, "n_layer": 1, "n_positions": 16})";
  const WeightFacts right = facts_of({{"h.0.attn.c_attn.weight", {32, 96}}, {"wpe.weight", {16, 32}}}, gpt2);
  CHECK(value(right, "fused_rows") == "96 = 12 heads of 8, q, k and v together");
  CHECK(value(right, "table_rows") == "16");
  CHECK(right.differences.empty());
  const WeightFacts short_table = facts_of({{"wpe.weight", {8, 32}}}, gpt2);
  REQUIRE(short_table.differences.size() == 1);
  CHECK(short_table.differences[0].find("wpe.weight has 8 rows, but the table in ") == 0);
}

TEST_CASE("weight facts: frequencies that a checkpoint kept are compared with the config's") {
  const Scratch scratch;
  scratch.file(llama, "config.json");
  const ModelConfig config = load_model_config(scratch.path("config.json"));
  const auto facts = [&](const std::vector<float>& values) {
    const std::vector<SafetensorsEntry<float>> entries = {
        {"model.layers.0.self_attn.rotary_emb.inv_freq", {std::ssize(values)}, values},
        {"model.layers.1.self_attn.rotary_emb.inv_freq", {std::ssize(values)}, values}};
    write_safetensors<float>(scratch.path("model.safetensors"), entries, {});
    return weight_facts(SafetensorsFile(scratch.path("model.safetensors")), &config);
  };
  const WeightFacts right = facts({1, 0.1F, 0.01F, 0.001F});
  CHECK(value(right, "inv_freq").find("the config's within 1e-05") != std::string::npos);
  CHECK(value(right, "inv_freq_buffers") == "2");
  CHECK(right.differences.empty());
  CHECK(facts({1, 0.1F, 0.01F, 0.0011F}).differences.size() == 1);
  CHECK(facts({1, 0.1F}).differences.size() == 1);
}

TEST_CASE("weight facts: GGUF's names") {
  const Scratch scratch;
  const GgufFile file(scratch.file(GgufBytes()
                                       .floats("blk.0.attn_q.weight", {2, 32}, std::vector<float>(64))
                                       .floats("blk.0.attn_q_norm.weight", {8}, std::vector<float>(8))
                                       .floats("blk.0.attn_k.bias", {16}, std::vector<float>(16))
                                       .floats("position_embd.weight", {2, 3}, std::vector<float>(6))
                                       .bytes(),
                                   "a.gguf"));
  const WeightFacts facts = weight_facts(file, nullptr);
  CHECK(value(facts, "query_rows") == "32");
  CHECK(value(facts, "query_norm") == "8");
  CHECK(value(facts, "biases") == "attn_k");
  CHECK(value(facts, "table_rows") == "3");
  CHECK(facts.differences.empty());
}
