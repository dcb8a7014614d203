// Where each parameter of a transformer stands in one flat array. Gradients and the optimiser's moments have the same
// order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "poslab/core/random.h"
#include "poslab/models/transformer_config.h"

namespace poslab {

// Names are those of Hugging Face's Llama (with post_norms: of its Gemma 3), with ".bias" beside ".weight" where the
// config has biases, and
//   model.embed_layernorm.weight           [d_model]                           embedding_norm
//   model.*                                what the encoding learns: see Method::tensors
// Weights are [out, in]: y = W x. Without a gate mlp.up_proj is the first linear map.
struct ParameterSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  // in elements
  std::int64_t size = 0;
};

// Offsets of one layer's tensors; -1 = the model has none. qkv: q, k, v side by side as one [qkv_width, d_model]; up:
// the gate where there is one, then up.
struct LayerOffsets {
  std::int64_t norm1_weight = -1, norm1_bias = -1, qkv_weight = -1, qkv_bias = -1, o_weight = -1, o_bias = -1;
  std::int64_t norm2_weight = -1, norm2_bias = -1, up_weight = -1, up_bias = -1, down_weight = -1, down_bias = -1;
  std::int64_t q_norm = -1, k_norm = -1;                                                // gains
  std::int64_t post1_weight = -1, post1_bias = -1, post2_weight = -1, post2_bias = -1;  // post_norms
};

class ParameterLayout {
 public:
  // Throws as check_config does.
  explicit ParameterLayout(const TransformerConfig& config);

  const std::vector<ParameterSpec>& specs() const { return specs_; }
  // Throws std::invalid_argument "[parameters] ..." for a name the model has not.
  const ParameterSpec& spec(const std::string& name) const;
  std::int64_t size() const { return size_; }

  // Every layer has the same offsets from its own start on.
  std::int64_t layer_begin(std::int64_t layer) const { return layers_begin_ + layer * layer_size_; }
  std::int64_t layer_size() const { return layer_size_; }
  const LayerOffsets& in_layer() const { return in_layer_; }

  std::int64_t embed = 0, norm_weight = -1, norm_bias = -1;
  std::int64_t embed_norm_weight = -1, embed_norm_bias = -1;
  std::int64_t head = 0;     // = embed where tied
  std::int64_t method = -1;  // method_size numbers, in the order of Method::tensors
  std::int64_t method_size = 0;

 private:
  std::int64_t add(std::string name, std::vector<std::int64_t> shape);

  std::vector<ParameterSpec> specs_;
  std::int64_t size_ = 0, layers_begin_ = 0, layer_size_ = 0;
  LayerOffsets in_layer_;
};

// The values before training, drawn tensor by tensor in the layout's order: normal(0, 0.02), divided by
// sqrt(2 n_layers) for o_proj and down_proj (Radford et al. 2019, GPT-2); gains 1, biases 0; the encoding's
// own as it says (Method::initialise).
std::vector<double> initial_parameters(const TransformerConfig& config, Generator& generator);

}  // namespace poslab
