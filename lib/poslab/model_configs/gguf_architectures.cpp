#include "poslab/model_configs/gguf_architectures.h"

#include <algorithm>
#include <iterator>

namespace poslab {
namespace {

constexpr GgufArchitecture rotary(std::string_view name, RopeLayout layout) { return {.name = name, .layout = layout}; }

constexpr GgufArchitecture sliding(std::string_view name, RopeLayout layout, SlidingLayers layers) {
  return {.name = name, .layout = layout, .sliding = layers};
}

constexpr GgufArchitecture other(std::string_view name, ModelEncoding encoding) {
  return {.name = name, .encoding = encoding};
}

using enum RopeLayout;
constexpr GgufArchitecture table[] = {
    // RoPE, pairs of neighbours
    rotary("llama", interleaved),
    rotary("mistral3", interleaved),
    rotary("arcee", interleaved),
    rotary("internlm2", interleaved),
    rotary("minicpm", interleaved),
    rotary("xverse", interleaved),
    rotary("command-r", interleaved),
    rotary("olmo", interleaved),
    {.name = "granite", .layout = interleaved, .finetuned_switches_off = true},
    rotary("chatglm", interleaved),
    {.name = "smollm3", .layout = interleaved, .nope_period = 4},
    {.name = "llama4",
     .layout = interleaved,
     .sliding = {.period = 4, .window = 8192, .chunked = true},
     .nope_period = 4},
    {.name = "cohere2", .layout = interleaved, .sliding = {.period = 4}, .full_layers_turn = false},
    {.name = "deepseek2", .layout = interleaved, .latent = true},
    // RoPE, halves
    rotary("qwen", half),
    rotary("qwen2", half),
    rotary("qwen2moe", half),
    rotary("qwen3", half),
    rotary("qwen3moe", half),
    rotary("phi2", half),
    rotary("phi3", half),
    rotary("phimoe", half),
    rotary("gemma", half),
    sliding("gemma2", half, {.period = 2, .window = 4096}),
    sliding("gemma3", half, {.period = 6, .optional = true, .rope_theta = 10000, .scaled = false}),
    sliding("gemma3n", half, {.period = 5, .rope_theta = 10000, .scaled = false}),
    rotary("gptneox", half),
    rotary("falcon", half),
    rotary("stablelm", half),
    rotary("starcoder2", half),
    sliding("olmo2", half, {.period = 4, .optional = true, .scaled = false}),
    rotary("olmoe", half),
    rotary("nemotron", half),
    rotary("exaone", half),
    rotary("seed_oss", half),
    sliding("gpt-oss", half, {.period = 2}),
    // Others
    other("gpt2", ModelEncoding::learned),
    other("starcoder", ModelEncoding::learned),
    other("bert", ModelEncoding::learned),
    other("bloom", ModelEncoding::alibi),
    other("mpt", ModelEncoding::alibi),
    other("refact", ModelEncoding::alibi),
    other("jina-bert-v2", ModelEncoding::alibi),
    other("t5", ModelEncoding::t5),
    other("t5encoder", ModelEncoding::t5),
    other("mamba", ModelEncoding::none),
    other("mamba2", ModelEncoding::none),
};

}  // namespace

const GgufArchitecture* find_gguf_architecture(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(table), std::end(table), [&](const GgufArchitecture& a) { return a.name == name; });
  return found == std::end(table) ? nullptr : found;
}

std::string known_gguf_architectures() {
  std::string out;
  for (const GgufArchitecture& a : table) out += (out.empty() ? "" : ", ") + std::string(a.name);
  return out;
}

}  // namespace poslab
