// GPTNeoXForCausalLM (GPT-NeoX-20B, Pythia): LayerNorm, part of the head is rotated, attention and MLP side by side.
#include "poslab/models/families/shared_reading.h"

namespace poslab {
namespace {

constexpr TensorModule modules[] = {{"model.embed_tokens", "gpt_neox.embed_in"},
                                    {"input_layernorm", "input_layernorm"},
                                    {"self_attn.q_proj", "attention.query_key_value"},
                                    {"self_attn.k_proj", "attention.query_key_value"},
                                    {"self_attn.v_proj", "attention.query_key_value"},
                                    {"self_attn.o_proj", "attention.dense"},
                                    {"post_attention_layernorm", "post_attention_layernorm"},
                                    {"mlp.up_proj", "mlp.dense_h_to_4h"},
                                    {"mlp.down_proj", "mlp.dense_4h_to_h"},
                                    {"model.norm", "gpt_neox.final_layer_norm"},
                                    {"lm_head", "embed_out"}};

TransformerConfig read_gpt_neox(const ConfigKeys& keys) {
  TransformerConfig c = read_plain(keys, keys.integer("num_attention_heads"), keys.integer("num_hidden_layers"),
                                   keys.integer("hidden_size"), false);
  c.max_position_embeddings = keys.integer("max_position_embeddings");
  c.d_ff = keys.integer("intermediate_size");
  c.norm_eps = keys.real("layer_norm_eps", 1e-5);
  c.mlp = mlp_of(keys, "hidden_act", "gelu", false);
  c.qkv_bias = c.o_bias = keys.boolean("attention_bias", true);
  c.parallel_residual = keys.boolean("use_parallel_residual", true);
  read_rope(keys, c);
  return c;
}

void read_gpt_neox_gguf(const GgufModel& model, TransformerConfig& c) {
  c.parallel_residual = model.file().boolean(model.key("use_parallel_residual")).value_or(true);
}

constexpr RunnableFamily run{
    .read = read_gpt_neox,
    .names = {.prefix = "gpt_neox.", .layers = "gpt_neox.layers.", .modules = modules, .fused_by_head = true},
    .gguf = GgufBlocks{.norm = NormKind::layer_norm, .mlp = MlpKind::gelu, .read = read_gpt_neox_gguf}};

}  // namespace

extern constinit const Family gpt_neox_family = {
    .name = "GPT-NeoX, Pythia",
    .who = "EleutherAI",
    .model_type = "gpt_neox",
    .class_name = "GPTNeoXForCausalLM",
    .hf = {.hidden_size = 6144,
           .n_heads = 64,
           .max_positions = 2048,
           .theta_key = "rotary_emb_base",
           .partial_key = "rotary_pct",
           .partial_rotary_factor = 0.25,
           .default_type_is_partial = true,
           .has_head_dim = false,
           .divisible = true},
    .gguf = {.name = "gptneox"},
    .run = &run,
};

}  // namespace poslab
