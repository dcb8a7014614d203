// GPT2LMHeadModel: LayerNorm, a learned table, q, k and v in one tensor that stands [in, out].
#include "poslab/models/families/shared_reading.h"

namespace poslab {
namespace {

constexpr TensorModule modules[] = {{"model.embed_tokens", "transformer.wte"},
                                    {"model.embed_positions", "transformer.wpe"},
                                    {"input_layernorm", "ln_1"},
                                    {"self_attn.q_proj", "attn.c_attn"},
                                    {"self_attn.k_proj", "attn.c_attn"},
                                    {"self_attn.v_proj", "attn.c_attn"},
                                    {"self_attn.o_proj", "attn.c_proj"},
                                    {"post_attention_layernorm", "ln_2"},
                                    {"mlp.up_proj", "mlp.c_fc"},
                                    {"mlp.down_proj", "mlp.c_proj"},
                                    {"model.norm", "transformer.ln_f"},
                                    {"lm_head", "lm_head"}};

TransformerConfig read_gpt2(const ConfigKeys& keys) {
  TransformerConfig c = read_plain(keys, keys.integer("n_head"), keys.integer("n_layer"), keys.integer("n_embd"), true);
  c.max_position_embeddings = keys.integer("n_positions");
  c.d_ff = keys.integer("n_inner", c.d_ff);
  c.norm_eps = keys.real("layer_norm_epsilon", 1e-5);
  c.mlp = mlp_of(keys, "activation_function", "gelu_new", false);
  c.encoding = PositionEncoding(learned_method());
  keys.require_true("scale_attn_weights");
  keys.require_false("scale_attn_by_inverse_layer_idx");
  keys.require_false("add_cross_attention");
  return c;
}

constexpr RunnableFamily run{
    .read = read_gpt2,
    .names = {.prefix = "transformer.", .layers = "transformer.h.", .modules = modules, .transposed = true},
    .gguf = GgufBlocks{.norm = NormKind::layer_norm, .mlp = MlpKind::gelu_tanh}};

}  // namespace

extern constinit const Family gpt2_family = {
    .name = "GPT-2",
    .who = "OpenAI",
    .model_type = "gpt2",
    .class_name = "GPT2LMHeadModel",
    .encoding = ModelEncoding::learned,
    .hf = {.hidden_size = 768, .n_heads = 12, .max_positions = 1024},
    .gguf = {.name = "gpt2"},
    .run = &run,
};

}  // namespace poslab
