#include "poslab/models/hf_families.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "poslab/model_configs/hf_config.h"
#include "poslab/model_configs/model_classes.h"

namespace poslab {
namespace {

using nlohmann::json;

std::int64_t width_of_head(const ConfigKeys& keys, const TransformerConfig& c) {
  if (c.n_heads < 1 || c.d_model % c.n_heads != 0) {
    keys.fail(fmt::format("the width {} does not divide among {} heads", c.d_model, c.n_heads));
  }
  return c.d_model / c.n_heads;
}

MlpKind mlp_of(const ConfigKeys& keys, const char* key, const std::string& fallback, bool gated) {
  const std::string activation = keys.text(key, fallback);
  if (gated && (activation == "silu" || activation == "swish")) return MlpKind::swiglu;
  if (!gated && activation == "gelu") return MlpKind::gelu;
  for (const char* word : {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"}) {
    if (activation == word) return gated ? MlpKind::geglu_tanh : MlpKind::gelu_tanh;
  }
  keys.fail(fmt::format("{} '{}' is not supported{}", key, activation,
                        gated ? " here; silu, gelu_new, gelu_pytorch_tanh and gelu_fast are"
                              : " here; gelu, gelu_new, gelu_pytorch_tanh and gelu_fast are"));
}

// The frequencies as every other reader of the config has them.
void read_rope(const ConfigKeys& keys, TransformerConfig& c) {
  const ModelConfig read = model_config(keys.all(), keys.path());
  c.encoding = PositionEncoding::rope;
  c.rope = c.local_rope = read.layers.front().rope;
  c.layout = read.layers.front().layout;
  for (const LayerPositions& layer : read.layers) {
    if (layer.layer_type == "full_attention") c.rope = layer.rope;
    if (layer.layer_type == "sliding_attention") c.local_rope = layer.rope;
  }
}

// Which layers slide: layer_types where the config has them, else what its class says.
template <class Slides>
void read_local_layers(const ConfigKeys& keys, TransformerConfig& c, std::int64_t window, const Slides& slides) {
  std::vector<bool> local;
  if (const json* types = keys.find("layer_types")) {
    if (!types->is_array()) keys.fail("layer_types must be an array");
    for (const json& type : *types) {
      if (type != "full_attention" && type != "sliding_attention") {
        keys.fail(fmt::format("layer_types holds {}; full_attention and sliding_attention are supported", type.dump()));
      }
      local.push_back(type == "sliding_attention");
    }
  } else {
    check_config(c);  // before a list of its layers is made
    for (std::int64_t layer = 0; layer < c.n_layers; ++layer) local.push_back(slides(layer));
  }
  if (std::none_of(local.begin(), local.end(), [](bool l) { return l; })) return;
  c.local_layers = std::move(local);
  c.local_window = window;
}

// What Llama and its kin share.
TransformerConfig read_gated(const ConfigKeys& keys, const char* activation_key, const std::string& activation,
                             std::int64_t head_dim, bool tied) {
  TransformerConfig c;
  c.vocab_size = keys.integer("vocab_size");
  c.d_model = keys.integer("hidden_size");
  c.n_layers = keys.integer("num_hidden_layers");
  c.n_heads = keys.integer("num_attention_heads");
  c.n_kv_heads = keys.integer("num_key_value_heads", c.n_heads);
  c.head_dim = keys.find("head_dim") ? keys.integer("head_dim") : head_dim > 0 ? head_dim : width_of_head(keys, c);
  c.d_ff = keys.integer("intermediate_size");
  c.max_position_embeddings = keys.integer("max_position_embeddings");
  c.tied_head = keys.boolean("tie_word_embeddings", tied);
  c.norm = NormKind::rms_norm;
  c.norm_eps = keys.real("rms_norm_eps", 1e-6);
  c.mlp = mlp_of(keys, activation_key, activation, true);
  c.set_biases(false);
  return c;
}

TransformerConfig read_llama(const ConfigKeys& keys) {
  TransformerConfig c = read_gated(keys, "hidden_act", "silu", 0, false);
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

TransformerConfig read_mistral(const ConfigKeys& keys) {
  TransformerConfig c = read_gated(keys, "hidden_act", "silu", 0, false);
  read_rope(keys, c);
  c.attention_window = keys.integer("sliding_window", 0);
  return c;
}

void read_late_sliding(const ConfigKeys& keys, TransformerConfig& c) {
  if (!keys.boolean("use_sliding_window", false)) return;
  const std::int64_t first = keys.integer("max_window_layers", 28);
  read_local_layers(keys, c, keys.integer("sliding_window", 4096), [&](std::int64_t layer) { return layer >= first; });
}

TransformerConfig read_qwen2(const ConfigKeys& keys) {
  TransformerConfig c = read_gated(keys, "hidden_act", "silu", 0, false);
  c.qkv_bias = true;
  read_rope(keys, c);
  read_late_sliding(keys, c);
  return c;
}

TransformerConfig read_qwen3(const ConfigKeys& keys) {
  TransformerConfig c = read_gated(keys, "hidden_act", "silu", 128, false);
  c.qkv_bias = c.o_bias = keys.boolean("attention_bias", false);
  c.qk_norm = true;
  read_rope(keys, c);
  read_late_sliding(keys, c);
  return c;
}

TransformerConfig read_gemma3(const ConfigKeys& given) {
  // Multimodal files leave out what their class says (Gemma3TextConfig).
  const ModelClass& own = *find_model_class("gemma3_text");
  json all = {{"vocab_size", 262208},
              {"hidden_size", own.hidden_size},
              {"intermediate_size", 9216},
              {"num_hidden_layers", 26},
              {"num_attention_heads", own.n_heads},
              {"num_key_value_heads", own.n_kv_heads},
              {"max_position_embeddings", own.max_positions}};
  all.update(given.all());
  const ConfigKeys keys(all, given.path());
  TransformerConfig c = read_gated(keys, "hidden_activation", "gelu_pytorch_tanh", own.head_dim, true);
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

// What the families with LayerNorm and all biases share.
TransformerConfig read_plain(const ConfigKeys& keys, std::int64_t n_heads, std::int64_t n_layers, std::int64_t width,
                             bool tied) {
  TransformerConfig c;
  c.vocab_size = keys.integer("vocab_size");
  c.d_model = width;
  c.n_layers = n_layers;
  c.n_heads = c.n_kv_heads = n_heads;
  c.head_dim = width_of_head(keys, c);
  c.d_ff = 4 * c.d_model;
  c.tied_head = keys.boolean("tie_word_embeddings", tied);
  return c;
}

TransformerConfig read_gpt2(const ConfigKeys& keys) {
  TransformerConfig c = read_plain(keys, keys.integer("n_head"), keys.integer("n_layer"), keys.integer("n_embd"), true);
  c.max_position_embeddings = keys.integer("n_positions");
  c.d_ff = keys.integer("n_inner", c.d_ff);
  c.norm_eps = keys.real("layer_norm_epsilon", 1e-5);
  c.mlp = mlp_of(keys, "activation_function", "gelu_new", false);
  c.encoding = PositionEncoding::learned;
  keys.require_true("scale_attn_weights");
  keys.require_false("scale_attn_by_inverse_layer_idx");
  keys.require_false("add_cross_attention");
  return c;
}

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

TransformerConfig read_bloom(const ConfigKeys& keys) {
  TransformerConfig c =
      read_plain(keys, keys.integer({"n_head", "num_attention_heads"}), keys.integer({"n_layer", "num_hidden_layers"}),
                 keys.integer({"hidden_size", "n_embed"}), true);
  c.max_position_embeddings = keys.integer("seq_length", 2048);  // of training: ALiBi has no table that ends
  c.norm_eps = keys.real("layer_norm_epsilon", 1e-5);
  c.mlp = MlpKind::gelu_tanh;
  c.encoding = PositionEncoding::alibi;
  c.embedding_norm = true;
  keys.require_false("apply_residual_connection_post_layernorm");
  return c;
}

TransformerConfig read_mpt(const ConfigKeys& keys) {
  TransformerConfig c =
      read_plain(keys, keys.integer("n_heads"), keys.integer("n_layers"), keys.integer("d_model"), true);
  c.max_position_embeddings = keys.integer("max_seq_len", 2048);
  c.d_ff = keys.integer("expansion_ratio", 4) * c.d_model;
  c.norm_eps = keys.real("layer_norm_epsilon", 1e-5);
  c.set_biases(false);
  c.encoding = PositionEncoding::alibi;
  keys.require_true("no_bias");
  keys.require_absent("logit_scale");
  static const json none = json::object();
  const json* inner = keys.find("attn_config");
  if (inner && !inner->is_object()) keys.fail("attn_config must be an object");
  const std::string path = keys.path() + ": attn_config";
  const ConfigKeys attention(inner ? *inner : none, path);
  if (const std::string type = attention.text("attn_type", "multihead_attention"); type != "multihead_attention") {
    attention.fail(fmt::format("attn_type '{}' is not multihead_attention", type));
  }
  attention.require_true("alibi");
  attention.require_false("qk_ln");
  attention.require_false("prefix_lm");
  c.alibi_bias_max = attention.real("alibi_bias_max", 8);
  if (attention.find("clip_qkv")) c.qkv_clip = attention.real("clip_qkv");
  if (attention.find("softmax_scale")) c.query_scale = attention.real("softmax_scale");
  return c;
}

// Everything else that poslab trains, in Llama's keys and names.
TransformerConfig read_own(const ConfigKeys& keys) {
  TransformerConfig c = read_gated(keys, "hidden_act", "silu", 0, false);
  c.norm = keys.word<NormKind>("norm");
  c.norm_eps = keys.real("norm_eps");
  c.mlp = keys.word<MlpKind>("mlp");
  c.set_biases(keys.boolean("biases"));
  c.qkv_bias = keys.boolean("qkv_bias", c.qkv_bias);
  c.o_bias = keys.boolean("o_bias", c.o_bias);
  c.attention_window = keys.integer("attention_window", 0);
  c.fire_length = keys.real("fire_length", c.fire_length);
  c.alibi_bias_max = keys.real("alibi_bias_max", c.alibi_bias_max);
  const std::string word = keys.text("position_embedding_type", "rope");
  const PositionEncoding encoding = word == "nope" ? PositionEncoding::none
                                    : keys.find("position_embedding_type")
                                        ? keys.word<PositionEncoding>("position_embedding_type")
                                        : PositionEncoding::rope;
  if (turns_pairs(encoding)) {
    json rotary = keys.all();
    rotary["model_type"] = "llama";
    rotary.erase("position_embedding_type");
    read_rope(ConfigKeys(rotary, keys.path()), c);
    c.rope.rotary_dim = keys.integer("rotary_dim", c.head_dim);
  }
  c.encoding = encoding;
  return c;
}

struct Family {
  std::string_view model_type;
  TransformerConfig (*read)(const ConfigKeys&);
  const TensorNaming* naming;
};

constexpr Family families[] = {
    {"llama", read_llama, &llama_names},
    {"mistral", read_mistral, &llama_names},
    {"qwen2", read_qwen2, &llama_names},
    {"qwen3", read_qwen3, &llama_names},
    {"gemma3_text", read_gemma3, &gemma3_names},
    {"gpt2", read_gpt2, &gpt2_names},
    {"gpt_neox", read_gpt_neox, &gpt_neox_names},
    {"bloom", read_bloom, &bloom_names},
    {"mpt", read_mpt, &mpt_names},
    {"poslab", read_own, &llama_names},
};

}  // namespace

FamilyModel read_family(const ConfigKeys& keys) {
  const std::string type = keys.text("model_type");
  std::string known;
  for (const Family& family : families) {
    if (family.model_type == type) return {family.read(keys), family.naming};
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family.model_type);
  }
  keys.fail(fmt::format("model_type '{}' is not known; poslab runs {}", type, known));
}

}  // namespace poslab
