// A transformer's config.json: how poslab writes one, and reading one of any family (models/families).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "poslab/models/stored_tensors.h"
#include "poslab/models/transformer_config.h"

namespace poslab {

// How poslab writes a model of its own.
//
// llama   LlamaForCausalLM: RMSNorm, SwiGLU, RoPE in all channels. Models whose method fits_llama_config and
// interleaved
//         pairs use the same names with position_embedding_type and rope_interleave, which transformers' own class
//         does not read
// gpt2    GPT2LMHeadModel: LayerNorm, GELU, biases, a learned table
// poslab  everything else: Llama's keys and names, with norm, mlp, biases, rotary_dim, attention_window and the
// encoding's parameters
enum class ModelFamily { llama, gpt2, poslab };
constexpr auto words(ModelFamily) {
  return word_table<ModelFamily>(
      {{ModelFamily::llama, "llama"}, {ModelFamily::gpt2, "gpt2"}, {ModelFamily::poslab, "poslab"}});
}
ModelFamily model_family(const TransformerConfig& config);
const TensorNaming& saved_names(const TransformerConfig& config);

// Text that belongs to a checkpoint (its vocabulary, say), kept under "poslab" in config.json.
using CheckpointNotes = std::map<std::string, std::string>;

// Throws std::invalid_argument "[checkpoint] ..." for frequencies that no config.json can name (ConfigForm::unnamed),
// and for an `untrainable` config.
std::string config_json(const TransformerConfig& config, const CheckpointNotes& notes, const std::string& torch_dtype);

struct ReadConfig {
  TransformerConfig config;
  const TensorNaming* naming = nullptr;
  CheckpointNotes notes;
  bool text_part = false;  // of a multimodal model, whose other parts are not read
};
// Throws std::invalid_argument as read_family does, and for a config that check_config refuses.
ReadConfig read_config(const std::string& path);

}  // namespace poslab
