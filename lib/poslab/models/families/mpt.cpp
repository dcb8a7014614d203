// MptForCausalLM: ALiBi, LayerNorm without bias; q, k and v may be clipped.
#include "poslab/model_configs/config_text.h"
#include "poslab/models/families/shared_reading.h"

namespace poslab {
namespace {

// transformers builds ALiBi whatever the key says; the code beside the weights has a learned table then.
void warn_of_alibi(ConfigText& config, EncodingChoice&) {
  constexpr const char* most = "attn_config.alibi_bias_max";
  if (const auto* value = config.top(most); value && value->is_number() && value->get<double>() != 8) {
    config.warn("{} is {}: the model's authors and llama.cpp apply it, as poslab does; transformers runs with 8.",
                config.path(most), value->get<double>());
  }
  constexpr const char* key = "attn_config.alibi";
  if (config.boolean(key, true)) return;
  config.warn("{} is false, which transformers does not look at: its MPT always has ALiBi.", config.path(key));
  config.ignore(config.path(key));
}

constexpr TensorModule modules[] = {{"model.embed_tokens", "transformer.wte"},
                                    {"input_layernorm", "norm_1"},
                                    {"self_attn.q_proj", "attn.Wqkv"},
                                    {"self_attn.k_proj", "attn.Wqkv"},
                                    {"self_attn.v_proj", "attn.Wqkv"},
                                    {"self_attn.o_proj", "attn.out_proj"},
                                    {"post_attention_layernorm", "norm_2"},
                                    {"mlp.up_proj", "ffn.up_proj"},
                                    {"mlp.down_proj", "ffn.down_proj"},
                                    {"model.norm", "transformer.norm_f"},
                                    {"lm_head", "lm_head"}};

TransformerConfig read_mpt(const ConfigKeys& keys) {
  TransformerConfig c =
      read_plain(keys, keys.integer("n_heads"), keys.integer("n_layers"), keys.integer("d_model"), true);
  c.max_position_embeddings = keys.integer("max_seq_len", 2048);
  c.d_ff = keys.integer("expansion_ratio", 4) * c.d_model;
  c.norm_eps = keys.real("layer_norm_epsilon", 1e-5);
  c.set_biases(false);
  c.encoding = PositionEncoding(alibi_method());
  keys.require_true("no_bias");
  keys.require_absent("logit_scale");
  static const nlohmann::json none = nlohmann::json::object();
  const nlohmann::json* inner = keys.find("attn_config");
  if (inner && !inner->is_object()) keys.fail("attn_config must be an object");
  const std::string path = keys.path() + ": attn_config";
  const ConfigKeys attention(inner ? *inner : none, path);
  if (const std::string type = attention.text("attn_type", "multihead_attention"); type != "multihead_attention") {
    attention.fail(fmt::format("attn_type '{}' is not multihead_attention", type));
  }
  attention.require_true("alibi");
  attention.require_false("qk_ln");
  attention.require_false("prefix_lm");
  c.method.alibi_bias_max = attention.real("alibi_bias_max", 8);
  if (attention.find("clip_qkv")) c.qkv_clip = attention.real("clip_qkv");
  if (attention.find("softmax_scale")) c.query_scale = attention.real("softmax_scale");
  return c;
}

constexpr RunnableFamily run{
    .read = read_mpt,
    .names = {.prefix = "transformer.", .layers = "transformer.blocks.", .modules = modules, .norm_biases = false},
    .gguf = GgufBlocks{.norm = NormKind::layer_norm, .mlp = MlpKind::gelu}};

}  // namespace

extern constinit const Family mpt_family = {
    .name = "MPT",
    .who = "MosaicML",
    .model_type = "mpt",
    .class_name = "MptForCausalLM",
    .encoding = alibi_method,
    .hf = {.hidden_size = 2048, .n_heads = 16, .max_positions = 2048, .choose_encoding = warn_of_alibi},
    .gguf = {.name = "mpt"},
    .run = &run,
};

}  // namespace poslab
