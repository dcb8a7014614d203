// The model families of Hugging Face whose config.json and tensors poslab's transformer can be.
#pragma once

#include "poslab/models/config_keys.h"
#include "poslab/models/stored_tensors.h"
#include "poslab/models/transformer_config.h"

namespace poslab {

struct FamilyModel {
  TransformerConfig config;
  const TensorNaming* naming = nullptr;
};

// By model_type: llama, mistral, qwen2, qwen3, gemma3_text, gpt2, gpt_neox, bloom, mpt, and poslab's own. What each
// class computes is that of transformers' modeling_*.py. Throws std::invalid_argument "[checkpoint] PATH: ..." for
// another model_type (with those there are), a key that is missing or of the wrong type, and settings that poslab's
// transformer has not.
FamilyModel read_family(const ConfigKeys& keys);

}  // namespace poslab
