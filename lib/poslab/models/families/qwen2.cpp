// Qwen2ForCausalLM (Qwen2 and Qwen2.5): biases on q, k and v alone; late layers may slide.
#include "poslab/models/families/shared_reading.h"

namespace poslab {
namespace {

TransformerConfig read_qwen2(const ConfigKeys& keys) {
  TransformerConfig c = read_gated(keys);
  c.qkv_bias = true;
  read_rope(keys, c);
  read_late_sliding(keys, c);
  return c;
}

constexpr RunnableFamily run{.read = read_qwen2, .gguf = GgufBlocks{}};

}  // namespace

extern constinit const Family qwen2_family = {
    .name = "Qwen2, Qwen2.5",
    .who = "Alibaba",
    .model_type = "qwen2",
    .class_name = "Qwen2ForCausalLM",
    .hf = {.hidden_size = 4096, .n_heads = 32, .max_positions = 32768, .has_head_dim = false},
    .gguf = {.name = "qwen2"},
    .run = &run,
};

}  // namespace poslab
