// Ernie4_5ForCausalLM (the dense models): as Llama, but for pairs of neighbours in every format, a head wider than its
// share, and biases everywhere or nowhere.
#include "poslab/models/families/shared_reading.h"

namespace poslab {
namespace {

constexpr HfClass defaults{.layout = RopeLayout::interleaved,
                           .hidden_size = 1024,
                           .n_heads = 16,
                           .head_dim = 128,
                           .max_positions = 131072,
                           .rope_theta = 5e5};

TransformerConfig read_ernie4_5(const ConfigKeys& keys) {
  TransformerConfig c = read_gated(keys, {.head_dim = defaults.head_dim, .tied = true, .norm_eps = 1e-5});
  c.set_biases(keys.boolean("use_bias", false));
  read_rope(keys, c);
  return c;
}

constexpr RunnableFamily run{.read = read_ernie4_5, .gguf = GgufBlocks{}};

}  // namespace

extern constinit const Family ernie4_5_family = {
    .name = "ERNIE 4.5",
    .who = "Baidu",
    .model_type = "ernie4_5",
    .class_name = "Ernie4_5ForCausalLM",
    .hf = defaults,
    .gguf = {.name = "ernie4_5", .layout = RopeLayout::interleaved},
    .run = &run,
};

}  // namespace poslab
