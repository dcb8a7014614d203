#include "poslab/models/families/shared_reading.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "poslab/model_configs/hf_config.h"

namespace poslab {

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

void read_rope(const ConfigKeys& keys, TransformerConfig& c) {
  const ModelConfig read = model_config(keys.all(), keys.path());
  c.encoding = PositionEncoding(rope_method());
  c.rope = c.local_rope = read.layers.front().rope;
  c.layout = read.layers.front().layout;
  for (const LayerPositions& layer : read.layers) {
    if (layer.layer_type == "full_attention") c.rope = layer.rope;
    if (layer.layer_type == "sliding_attention") c.local_rope = layer.rope;
  }
}

void read_local_layers(const ConfigKeys& keys, TransformerConfig& c, std::int64_t window,
                       const std::function<bool(std::int64_t layer)>& slides) {
  std::vector<bool> local;
  if (const nlohmann::json* types = keys.find("layer_types")) {
    if (!types->is_array()) keys.fail("layer_types must be an array");
    for (const nlohmann::json& type : *types) {
      const auto* word = type.get_ptr<const std::string*>();
      if (!word || (*word != "full_attention" && *word != "sliding_attention")) {
        keys.fail(fmt::format("layer_types holds {}; full_attention and sliding_attention are supported", type.dump()));
      }
      local.push_back(*word == "sliding_attention");
    }
  } else {
    check_config(c);  // before a list of its layers is made
    for (std::int64_t layer = 0; layer < c.n_layers; ++layer) local.push_back(slides(layer));
  }
  if (std::find(local.begin(), local.end(), true) == local.end()) return;
  c.local_layers = std::move(local);
  c.local_window = window;
}

void read_late_sliding(const ConfigKeys& keys, TransformerConfig& c) {
  if (!keys.boolean("use_sliding_window", false)) return;
  const std::int64_t first = keys.integer("max_window_layers", 28);
  read_local_layers(keys, c, keys.integer("sliding_window", 4096), [&](std::int64_t layer) { return layer >= first; });
}

TransformerConfig read_gated(const ConfigKeys& keys, const GatedDefaults& defaults) {
  TransformerConfig c;
  c.vocab_size = keys.integer("vocab_size");
  c.d_model = keys.integer("hidden_size");
  c.n_layers = keys.integer("num_hidden_layers");
  c.n_heads = keys.integer("num_attention_heads");
  c.n_kv_heads = keys.integer("num_key_value_heads", c.n_heads);
  c.head_dim = keys.find("head_dim")   ? keys.integer("head_dim")
               : defaults.head_dim > 0 ? defaults.head_dim
                                       : width_of_head(keys, c);
  c.d_ff = keys.integer("intermediate_size");
  c.max_position_embeddings = keys.integer("max_position_embeddings");
  c.tied_head = keys.boolean("tie_word_embeddings", defaults.tied);
  c.norm = NormKind::rms_norm;
  c.norm_eps = keys.real("rms_norm_eps", defaults.norm_eps);
  c.mlp = mlp_of(keys, defaults.activation_key, defaults.activation, true);
  c.set_biases(false);
  return c;
}

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

}  // namespace poslab
