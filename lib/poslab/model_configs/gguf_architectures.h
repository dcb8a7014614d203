// What llama.cpp does about positions in each architecture that a GGUF file may name, where the file's keys are silent.
// Facts read in llama.cpp's source (2026-09): llama_model_rope_type in src/llama-model.cpp for the layouts,
// load_arch_hparams of src/models/*.cpp for windows, bases and layers without RoPE.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "poslab/model_configs/hf_config.h"
#include "poslab/rope/rope.h"

namespace poslab {

// Layers that see a window only, `period - 1` of each `period` unless attention.sliding_window_pattern says otherwise.
struct SlidingLayers {
  std::int64_t period = 0;  // 0: there are none
  std::int64_t window = 0;  // where attention.sliding_window is absent; 0: the key is needed, or optional
  bool optional = false;    // without the key nothing slides
  bool chunked = false;     // the window is a chunk with fixed ends, whose length no key changes
  double rope_theta = 0;    // where rope.freq_base_swa is absent; 0: rope.freq_base
  bool scaled = true;       // rope.scaling.* applies to them too
};

struct GgufArchitecture {
  std::string_view name;
  ModelEncoding encoding = ModelEncoding::rope;
  RopeLayout layout = RopeLayout::half;
  SlidingLayers sliding = {};
  bool full_layers_turn = true;         // false: those that see everything have no position at all
  std::int64_t nope_period = 0;         // every so many-th layer has no position
  bool latent = false;                  // multi-head latent attention: rope.dimension_count channels turn apart
  bool finetuned_switches_off = false;  // rope.scaling.finetuned false means no RoPE

  // Whether the two kinds of layers turn differently, so that each needs a set of its own.
  bool two_sets() const { return sliding.rope_theta > 0 || !sliding.scaled || !full_layers_turn; }
};

// nullptr for a name that is not in the table.
const GgufArchitecture* find_gguf_architecture(std::string_view name);
// "llama, mistral3, ..."
std::string known_gguf_architectures();

}  // namespace poslab
