// What transformers' own config class of a model_type says where a config.json is silent.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "poslab/model_configs/hf_config.h"
#include "poslab/rope/rope.h"

namespace poslab {

// How a class turns rope keys into parameters; the reader has one branch for each.
enum class RopeReading {
  flat,         // rope_scaling or rope_parameters, one set
  per_layer,    // a set for each layer type, old spelling with top-level keys (Gemma 3, OLMo 3, ModernBERT)
  nested_only,  // a set for each layer type, nested rope_parameters or the class default (Gemma 4, MiMo-V2)
  rotary_dim,   // GPT-J, CodeGen: rotary_dim channels, base 10000, no scaling
  phi3,         // flat; "su" and "yarn" mean longrope, anything else is refused
  phimoe,       // flat; a scaled type needs short_mscale and long_mscale
  mla,          // flat; head_dim is qk_rope_head_dim, the softmax scale is multiplied (DeepSeek)
  hunyuan,      // flat; dynamic with alpha is a static NTK base
  qwen_vl,      // flat; type "mrope" means default
  chatglm       // remote code: half of kv_channels turns, base 10000 * rope_ratio
};

// One layer type of a class that reads per_layer or nested_only; the first is the one shown first.
struct LayerSet {
  std::string_view layer_type;
  std::string_view theta_key;  // top-level, old spelling; empty: always the class default
  double rope_theta;
  bool scaled;                   // takes rope_scaling
  std::string_view rope_type;    // nested_only's class default
  double partial_rotary_factor;  // nested_only's class default; 0 = none
};

struct ModelClass {
  std::string_view model_type;
  ModelEncoding encoding = ModelEncoding::rope;
  RopeLayout layout = RopeLayout::half;
  RopeReading reading = RopeReading::flat;
  // Class defaults; 0 = none. head_dim 0: hidden_size / n_heads.
  std::int64_t hidden_size = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, max_positions = 0;
  double rope_theta = 10000;
  std::string_view theta_key = "rope_theta";
  std::string_view partial_key = "partial_rotary_factor";
  double partial_rotary_factor = 0;       // 0 = none
  bool default_type_is_partial = false;   // Llama's default type ignores partial_rotary_factor, Phi's honours it
  bool has_head_dim = true;               // else "head_dim": null reaches the scaled types and breaks them
  bool divisible = false;                 // refuses a hidden_size that n_heads does not divide
  std::string_view rope_parameters = {};  // class default, JSON
  std::string_view own_keys = {};         // keys of the rope dict that its model reads itself, space-separated
  std::span<const LayerSet> layers = {};
};

// nullptr for a model_type that is not in the table.
const ModelClass* find_model_class(std::string_view model_type);

}  // namespace poslab
