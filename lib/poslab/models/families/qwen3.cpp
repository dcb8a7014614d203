// Qwen3ForCausalLM: a norm on each head of q and k; late layers may slide.
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

}  // namespace poslab
