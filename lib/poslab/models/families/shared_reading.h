// What several families read alike from their config.json.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "poslab/models/families/runnable_family.h"

namespace poslab {

// The width of a head: d_model / n_heads, which must divide.
std::int64_t width_of_head(const ConfigKeys& keys, const TransformerConfig& config);

// The kind that the activation at `key` makes, with a gate or without.
MlpKind mlp_of(const ConfigKeys& keys, const char* key, const std::string& fallback, bool gated);

// The frequencies as every other reader of the config has them.
void read_rope(const ConfigKeys& keys, TransformerConfig& config);

// Which layers slide: layer_types where the config has them, else what `slides(layer)` says.
void read_local_layers(const ConfigKeys& keys, TransformerConfig& config, std::int64_t window,
                       const std::function<bool(std::int64_t layer)>& slides);

// Qwen's way: with use_sliding_window all layers from max_window_layers on slide.
void read_late_sliding(const ConfigKeys& keys, TransformerConfig& config);

// What Llama and its kin share: RMSNorm, a gated MLP, no biases. head_dim: the class default, 0 for d_model / n_heads.
struct GatedDefaults {
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
  std::int64_t head_dim = 0;
  bool tied = false;
  double norm_eps = 1e-6;
};
TransformerConfig read_gated(const ConfigKeys& keys, const GatedDefaults& defaults = {});

// What the families with LayerNorm and all biases share.
TransformerConfig read_plain(const ConfigKeys& keys, std::int64_t n_heads, std::int64_t n_layers, std::int64_t width,
                             bool tied);

}  // namespace poslab
