// LlamaForCausalLM and GGUF's llama, whose q and k stand permuted for interleaved pairs. Mistral, SmolLM2 and
// TinyLlama have such GGUF files too.
#include "poslab/models/families/shared_reading.h"

namespace poslab {
namespace {

TransformerConfig read_llama(const ConfigKeys& keys) {
  TransformerConfig c = read_gated(keys);
  c.qkv_bias = c.o_bias = keys.boolean("attention_bias", false);
  c.mlp_bias = keys.boolean("mlp_bias", false);
  // Models without RoPE (alibi, none) have Llama's names in poslab's own files.
  if (const std::string encoding = keys.text("position_embedding_type", "rope"); encoding == "alibi") {
    c.encoding = PositionEncoding::alibi;
  } else if (encoding == "nope" || encoding == "none") {
    c.encoding = PositionEncoding::none;
  } else if (encoding == "rope") {
    read_rope(keys, c);
  } else {
    keys.fail(fmt::format("position_embedding_type '{}' is not rope, alibi or nope", encoding));
  }
  return c;
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
