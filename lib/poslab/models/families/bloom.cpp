// BloomForCausalLM: a bias by distance, LayerNorm, a norm on token vectors.
#include "poslab/models/families/shared_reading.h"

namespace poslab {
namespace {

constexpr TensorModule modules[] = {{"model.embed_tokens", "transformer.word_embeddings"},
                                    {"model.embed_layernorm", "transformer.word_embeddings_layernorm"},
                                    {"input_layernorm", "input_layernorm"},
                                    {"self_attn.q_proj", "self_attention.query_key_value"},
                                    {"self_attn.k_proj", "self_attention.query_key_value"},
                                    {"self_attn.v_proj", "self_attention.query_key_value"},
                                    {"self_attn.o_proj", "self_attention.dense"},
                                    {"post_attention_layernorm", "post_attention_layernorm"},
                                    {"mlp.up_proj", "mlp.dense_h_to_4h"},
                                    {"mlp.down_proj", "mlp.dense_4h_to_h"},
                                    {"model.norm", "transformer.ln_f"},
                                    {"lm_head", "lm_head"}};

TransformerConfig read_bloom(const ConfigKeys& keys) {
  TransformerConfig c =
      read_plain(keys, keys.integer({"n_head", "num_attention_heads"}), keys.integer({"n_layer", "num_hidden_layers"}),
                 keys.integer({"hidden_size", "n_embed"}), true);
  c.max_position_embeddings = keys.integer("seq_length", 2048);  // of training: there is no table that ends
  c.norm_eps = keys.real("layer_norm_epsilon", 1e-5);
  c.mlp = MlpKind::gelu_tanh;
  c.encoding = PositionEncoding(alibi_method());
  c.embedding_norm = true;
  keys.require_false("apply_residual_connection_post_layernorm");
  return c;
}

constexpr RunnableFamily run{
    .read = read_bloom,
    .names = {.prefix = "transformer.", .layers = "transformer.h.", .modules = modules, .fused_by_head = true},
    .gguf = GgufBlocks{.norm = NormKind::layer_norm, .mlp = MlpKind::gelu_tanh}};

}  // namespace

extern constinit const Family bloom_family = {
    .name = "BLOOM",
    .who = "BigScience",
    .model_type = "bloom",
    .class_name = "BloomForCausalLM",
    .encoding = alibi_method,
    .hf = {.hidden_size = 64, .n_heads = 8},
    .gguf = {.name = "bloom"},
    .run = &run,
};

}  // namespace poslab
