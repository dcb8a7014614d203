// A transformer's config.json, in the keys of Hugging Face where its classes have the model, and the names of its
// tensors there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "poslab/models/parameters.h"
#include "poslab/models/transformer_config.h"

namespace poslab {

// llama   LlamaForCausalLM: RMSNorm, SwiGLU, RoPE in all channels. Models without RoPE (alibi, none) and interleaved
//         pairs use the same names with position_embedding_type and rope_interleave, which transformers' own class
//         does not read
// gpt2    GPT2LMHeadModel: LayerNorm, exact GELU, biases, a learned table
// poslab  everything else: Llama's keys and names, with norm, mlp, biases, rotary_dim, fire_length, attention_window
enum class ModelFamily { llama, gpt2, poslab };
constexpr auto words(ModelFamily) {
  return word_table<ModelFamily>(
      {{ModelFamily::llama, "llama"}, {ModelFamily::gpt2, "gpt2"}, {ModelFamily::poslab, "poslab"}});
}
ModelFamily model_family(const TransformerConfig& config);

// A tensor of model.safetensors: the values from `offset` on, [rows, columns], stored transposed for gpt2's linear
// maps.
struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0, size = 0;
  bool transposed = false;  // the file's shape is [columns, rows]
};
std::vector<StoredTensor> stored_tensors(const TransformerConfig& config);

// Text that belongs to a checkpoint (its vocabulary, say), kept under "poslab" in config.json.
using CheckpointNotes = std::map<std::string, std::string>;

// Throws std::invalid_argument "[checkpoint] ..." for frequencies that no config.json can name (ntk_by_parts, yarn with
// the paper's ramp).
std::string config_json(const TransformerConfig& config, const CheckpointNotes& notes, const std::string& torch_dtype);

struct ReadConfig {
  TransformerConfig config;
  CheckpointNotes notes;
};
// From a config.json of these families. Throws std::invalid_argument naming the file and the key that is missing, of
// the wrong type, or asks for what poslab's transformer has not.
ReadConfig read_config(const std::string& path);

}  // namespace poslab
