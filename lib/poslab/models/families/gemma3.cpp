// Gemma3ForCausalLM: most layers slide and have a base of their own; norms after attention and MLP too, with 1 + gain.
// The multimodal config has it under text_config.
#include <cmath>
#include <utility>

#include "poslab/model_configs/gguf_config.h"
#include "poslab/models/families/shared_reading.h"

namespace poslab {
namespace {

constexpr LayerSet layers[] = {{"full_attention", "rope_theta", 1e6, true},
                               {"sliding_attention", "rope_local_base_freq", 1e4, false}};
constexpr HfClass defaults{.reading = RopeReading::per_layer,
                           .hidden_size = 2304,
                           .n_heads = 8,
                           .n_kv_heads = 4,
                           .head_dim = 256,
                           .max_positions = 131072,
                           .layers = layers};

TransformerConfig read_gemma3(const ConfigKeys& given) {
  // Multimodal files leave out what their class says (Gemma3TextConfig).
  nlohmann::json all = {{"vocab_size", 262208},
                        {"hidden_size", defaults.hidden_size},
                        {"intermediate_size", 9216},
                        {"num_hidden_layers", 26},
                        {"num_attention_heads", defaults.n_heads},
                        {"num_key_value_heads", defaults.n_kv_heads},
                        {"max_position_embeddings", defaults.max_positions}};
  all.update(given.all());
  const ConfigKeys keys(all, given.path());
  TransformerConfig c = read_gated(keys, {.activation_key = "hidden_activation",
                                          .activation = "gelu_pytorch_tanh",
                                          .head_dim = defaults.head_dim,
                                          .tied = true});
  c.qkv_bias = c.o_bias = keys.boolean("attention_bias", false);
  for (const char* key : {"final_logit_softcapping", "attn_logit_softcapping"}) keys.require_absent(key);
  keys.require_false("use_bidirectional_attention");
  c.qk_norm = c.post_norms = true;
  c.embedding_scale = std::sqrt(static_cast<double>(c.d_model));
  c.query_scale = 1 / std::sqrt(keys.real("query_pre_attn_scalar", 256));
  read_rope(keys, c);
  const std::int64_t pattern = keys.find("sliding_window_pattern") ? keys.integer("sliding_window_pattern")
                                                                   : keys.integer("_sliding_window_pattern", 6);
  if (pattern < 1) keys.fail(fmt::format("sliding_window_pattern must be above 0 but is {}", pattern));
  read_local_layers(keys, c, keys.integer("sliding_window", 4096),
                    [&](std::int64_t layer) { return (layer + 1) % pattern != 0; });
  return c;
}

void read_gemma3_gguf(const GgufModel& model, TransformerConfig& c) {
  for (const char* end : {"final_logit_softcapping", "attn_logit_softcapping"}) {
    if (model.file().number(model.key(end)).value_or(0) != 0) {
      model.fail(fmt::format("{} is not supported", model.key(end)));
    }
  }
  c.embedding_scale = static_cast<double>(std::sqrt(static_cast<float>(c.d_model)));
  for (const LayerPositions& layer : model.config().layers) {
    if (layer.layer_type == "sliding_attention") c.local_rope = layer.rope;
  }
  // llama.cpp tells the 27B model, whose queries are scaled otherwise, by its layers.
  constexpr std::int64_t layers_of_27b = 62;
  if (const auto scale = model.file().number(model.key("attention.scale")); scale && *scale > 0) {
    c.query_scale = scale;
  } else if (c.n_layers == layers_of_27b) {
    c.query_scale = 1 / std::sqrt(static_cast<double>(c.d_model) / static_cast<double>(c.n_heads));
  }
  check_config(c);  // before a list of its layers is made
  SlidingWindow sliding = gguf_sliding_window(model.file());
  c.local_layers = std::move(sliding.layers);
  c.local_window = sliding.tokens;
}

constexpr RunnableFamily run{.read = read_gemma3,
                             .names = {.gains_less_one = true},
                             .gguf = GgufBlocks{.mlp = MlpKind::geglu_tanh, .read = read_gemma3_gguf}};

}  // namespace

extern constinit const Family gemma3_family = {
    .name = "Gemma 3",
    .who = "Google",
    .model_type = "gemma3_text",
    .other_types = {"gemma3"},
    .class_name = "Gemma3ForCausalLM",
    .hf = defaults,
    .gguf = {.name = "gemma3", .sliding = {.period = 6, .optional = true, .rope_theta = 10000, .scaled = false}},
    .run = &run,
};

}  // namespace poslab
