// A model family: what its config class, its architecture in GGUF files and its tensors say where a file is silent.
// Every family stands once, under models/families: one that poslab runs in a file of its own, those that are only
// described as rows by kind (described_*.cpp). Readers look here and compare no model_type with a word of their own.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "poslab/model_configs/model_config.h"
#include "poslab/rope/rope.h"

namespace poslab {

class ConfigText;
struct RunnableFamily;  // models/families/runnable_family.h

// How a class turns rope keys into parameters; the readers have one branch for each.
enum class RopeReading {
  flat,         // rope_scaling or rope_parameters, one set
  per_layer,    // a set for each layer type, old spelling with top-level keys (Gemma 3, OLMo 3, ModernBERT)
  nested_only,  // a set for each layer type, nested rope_parameters or the class default (Gemma 4, MiMo-V2)
  rotary_dim,   // GPT-J, CodeGen: rotary_dim channels, base 10000, no scaling
  phi3,         // flat; two older words mean the only scaling that it has, anything else is refused
  phimoe,       // flat; a scaled type needs short_mscale and long_mscale
  mla,          // flat; head_dim is qk_rope_head_dim, the softmax scale is multiplied (DeepSeek)
  hunyuan,      // flat; alpha makes the growing base a fixed one
  qwen_vl,      // flat; type "mrope" means default
  chatglm       // remote code: half of kv_channels is rotated, base 10000 * rope_ratio
};

// One layer type of a class that reads per_layer or nested_only; the first is the one shown first.
struct LayerSet {
  std::string_view layer_type;
  std::string_view theta_key;  // top-level, old spelling; empty: always the class default
  double rope_theta;
  bool scaled;                             // takes rope_scaling
  std::string_view rope_type = "default";  // nested_only's class default
  double partial_rotary_factor = 0;        // nested_only's class default; 0 = none
  std::string_view head_dim_key = {};      // of a head width of its own; empty: as everywhere
  std::int64_t head_dim = 0;               // its class default
};

// Layers of the type full_attention in a class whose sliding layers have RoPE.
enum class FullAttention { rotates, never_rotates, rotates_without_window };

// An encoding and the key path or rule that decides it.
struct EncodingChoice {
  ModelEncoding encoding;
  std::string source;
};

// What transformers' own config class says where a config.json is silent.
struct HfClass {
  RopeLayout layout = RopeLayout::half;
  RopeReading reading = RopeReading::flat;
  // Class defaults; 0 = none. head_dim 0: hidden_size / n_heads.
  std::int64_t hidden_size = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, max_positions = 0;
  double rope_theta = 10000;
  std::string_view theta_key = "rope_theta";
  std::string_view partial_key = "partial_rotary_factor";
  std::string_view rotary_width_key = {};  // channels, read where partial_rotary_factor is absent
  double partial_rotary_factor = 0;        // 0 = none
  bool default_type_is_partial = false;    // Llama's default type ignores partial_rotary_factor, Phi's honours it
  bool has_head_dim = true;                // else "head_dim": null reaches the scaled types and breaks them
  bool divisible = false;                  // refuses a hidden_size that n_heads does not divide
  bool names_encoding = false;             // position_embedding_type is a key of this class
  bool interleave_key = false;             // rope_interleave is a key of this class
  bool table_after_padding = false;        // the learned table's first rows, up to pad_token_id, are no position's
  bool lists_layers_without = false;       // no_rope_layers and no_rope_layer_interval name layers without RoPE
  FullAttention full_attention = FullAttention::rotates;
  std::string_view rope_parameters = {};  // class default, JSON
  std::string_view own_keys = {};         // keys of the rope dict that its model reads itself, space-separated
  std::span<const LayerSet> layers = {};
  // Where a key of this class alone decides the encoding: changes the choice, or only warns.
  void (*choose_encoding)(ConfigText& config, EncodingChoice& choice) = nullptr;
};

// Layers that see a window only, `period - 1` of each `period` unless attention.sliding_window_pattern says otherwise.
struct SlidingLayers {
  std::int64_t period = 0;  // 0: there are none
  std::int64_t window = 0;  // where attention.sliding_window is absent; 0: the key is needed, or optional
  bool optional = false;    // without the key nothing slides
  bool chunked = false;     // the window is a chunk with fixed ends, whose length no key changes
  double rope_theta = 0;    // where rope.freq_base_swa is absent; 0: rope.freq_base
  bool scaled = true;       // rope.scaling.* applies to them too
};

// What llama.cpp does about positions where a GGUF file's keys are silent. Facts read in its source (2026-09):
// llama_model_rope_type in src/llama-model.cpp for the layouts, load_arch_hparams of src/models/*.cpp for windows,
// bases and layers without RoPE.
struct GgufArchitecture {
  std::string_view name = {};  // general.architecture; empty: none, or that of another family
  RopeLayout layout = RopeLayout::half;
  SlidingLayers sliding = {};
  bool full_layers_rotate = true;       // false: those that see everything have no position at all
  std::int64_t nope_period = 0;         // every so many-th layer has no position
  bool latent = false;                  // multi-head latent attention: rope.dimension_count channels rotate apart
  bool finetuned_switches_off = false;  // rope.scaling.finetuned false means no RoPE
  bool reads_yarn_keys = false;         // rope.scaling.yarn_beta_* and yarn_log_multiplier, which others only carry

  // Whether the two kinds of layers rotate differently, so that each needs a set of its own.
  bool two_sets() const { return sliding.rope_theta > 0 || !sliding.scaled || !full_layers_rotate; }
};

struct Family {
  std::string_view name;                             // "Mistral"
  std::string_view who;                              // who made it
  std::string_view model_type = {};                  // of config.json; empty: GGUF files alone
  std::array<std::string_view, 2> other_types = {};  // other model_types of the same class
  std::string_view class_name = {};                  // "MistralForCausalLM", of those that run
  ModelEncoding encoding = ModelEncoding::rope;
  HfClass hf = {};
  GgufArchitecture gguf = {};
  // Tensors of queries, keys and values.
  bool gated_queries = false;           // half the rows of q are a gate
  bool fused_heads_unsaid = false;      // the config may not say how many key heads the one tensor holds
  bool fused_stacked = false;           // all queries, all keys, all values in one tensor
  const RunnableFamily* run = nullptr;  // null: only described

  // The word that names it: its model_type, else its architecture.
  std::string_view word() const { return model_type.empty() ? gguf.name : model_type; }
};

// All of them, those that run first. Defined by models/families/list.cpp, which this room does not include.
std::span<const Family* const> families();

// nullptr where no family has it.
const Family* find_family(std::string_view model_type);
const Family* find_gguf_family(std::string_view architecture);

// "llama, qwen2, ..."
std::string known_gguf_architectures();

}  // namespace poslab
