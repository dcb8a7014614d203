// MistralForCausalLM: every layer may see a window. Its GGUF files are llama's.
#include "poslab/models/families/shared_reading.h"

namespace poslab {
namespace {

TransformerConfig read_mistral(const ConfigKeys& keys) {
  TransformerConfig c = read_gated(keys);
  read_rope(keys, c);
  c.attention_window = keys.integer("sliding_window", 0);
  return c;
}

constexpr RunnableFamily run{.read = read_mistral};

}  // namespace

extern constinit const Family mistral_family = {
    .name = "Mistral",
    .who = "Mistral AI",
    .model_type = "mistral",
    .class_name = "MistralForCausalLM",
    .hf = {.hidden_size = 4096, .n_heads = 32, .max_positions = 131072},
    .run = &run,
};

}  // namespace poslab
