// LlamaForCausalLM and GGUF's llama, whose q and k stand permuted for interleaved pairs. Mistral, SmolLM2 and
// TinyLlama have such GGUF files too.
#include "poslab/models/families/shared_reading.h"

namespace poslab {
namespace {

TransformerConfig read_llama(const ConfigKeys& keys) {
  TransformerConfig c = read_gated(keys);
  c.qkv_bias = c.o_bias = keys.boolean("attention_bias", false);
  c.mlp_bias = keys.boolean("mlp_bias", false);
  // Some models without RoPE have Llama's names in poslab's own files.
  const std::string word = keys.text("position_embedding_type", "rope");
  std::string known;
  for (const Method* method : all_methods()) {
    if (!method->fits_llama_config(c.method)) continue;
    if (word == method->config_word() || word == method->word()) {
      c.encoding = PositionEncoding(*method);
      if (method->acts_on(Place::rotation)) read_rope(keys, c);
      return c;
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", method->config_word());
  }
  keys.fail(fmt::format("position_embedding_type '{}' is none of {}", word, known));
}

constexpr RunnableFamily run{.read = read_llama, .gguf = GgufBlocks{}};

}  // namespace

extern constinit const Family llama_family = {
    .name = "Llama",
    .who = "Meta",
    .model_type = "llama",
    .class_name = "LlamaForCausalLM",
    .hf = {.hidden_size = 4096, .n_heads = 32, .max_positions = 2048, .divisible = true},
    .gguf = {.name = "llama", .layout = RopeLayout::interleaved},
    .run = &run,
};

}  // namespace poslab
