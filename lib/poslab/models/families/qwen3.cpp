// Qwen3ForCausalLM: a norm on each head of q and k; late layers may slide.
#include "poslab/models/families/rows.h"
#include "poslab/models/families/shared_reading.h"

namespace poslab {
namespace {

constexpr HfClass defaults{.hidden_size = 4096, .n_heads = 32, .head_dim = 128, .max_positions = 32768};

TransformerConfig read_qwen3(const ConfigKeys& keys) {
  TransformerConfig c = read_gated(keys, {.head_dim = defaults.head_dim});
  c.qkv_bias = c.o_bias = keys.boolean("attention_bias", false);
  c.qk_norm = true;
  read_rope(keys, c);
  read_late_sliding(keys, c);
  return c;
}

constexpr RunnableFamily run{.read = read_qwen3, .gguf = GgufBlocks{}};

// Its kin are described.
constexpr Family rows[] = {
    rotary("qwen3_moe", "Qwen3 MoE", "Alibaba", 2048, 32, 0, 32768).gguf("qwen3moe"),
    rotary("qwen3_vl_moe_text", "Qwen3-VL MoE", "Alibaba", 2048, 16, 0, 128000)
        .theta(5e5)
        .own("mrope_section mrope_interleaved"),
    rotary("qwen3_vl_text", "Qwen3-VL", "Alibaba", 4096, 32, 128, 128000)
        .theta(5e5)
        .own("mrope_section mrope_interleaved"),
    rotary("qwen3_next", "Qwen3-Next", "Alibaba", 2048, 16, 256, 32768).partial(0.25).gated_queries(),
};

}  // namespace

extern constinit const Family qwen3_family = {
    .name = "Qwen3",
    .who = "Alibaba",
    .model_type = "qwen3",
    .class_name = "Qwen3ForCausalLM",
    .hf = defaults,
    .gguf = {.name = "qwen3"},
    .run = &run,
};

std::span<const Family> described_qwen3() { return rows; }

}  // namespace poslab
