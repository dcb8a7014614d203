// The RoPE set of one kind of layer in a GGUF file: width, base, scaling, attention factor. Internal to gguf_config.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/model_configs/gguf_keys.h"

namespace poslab {

class GgufRopeReader {
 public:
  // `config` has its sizes and lengths and receives warnings. All must outlive the reader.
  GgufRopeReader(const GgufKeys& keys, const GgufWindow& window, ModelConfig& config)
      : keys_(keys), file_(&keys.file()), window_(window), out_(config) {}

  // layer_type: "full_attention", "sliding_attention" or, with one kind of layers, empty.
  LayerPositions read(std::string_view layer_type);

 private:
  void read_width(LayerPositions& layer) const;
  void read_theta(LayerPositions& layer, bool sliding) const;
  // The row that rope.scaling.type names; "none" is the plain one.
  RopeType scaling_type(std::string_view type) const;
  // llama.cpp: a factor without a type means linear; rope.scale_linear is the older name of the factor.
  void read_scaling(LayerPositions& layer);
  // llama.cpp's converter copies the betas from config.json for every architecture; few of them read them again.
  void read_beta(LayerPositions& layer, std::string_view name, double& beta);
  // attn_factor multiplies what the formula gives; yarn_attn_factor, which the converter copies from Hugging Face's
  // attention_factor, replaces it. yarn_log_multiplier is mscale_all_dim, in DeepSeek's files a tenth of it.
  void read_attention(LayerPositions& layer, double attention);
  // The numbers of a tensor that has one for each pair.
  std::vector<double> pair_factors(std::string_view name, std::int64_t pairs) const;
  void add_window(LayerPositions& layer) const;

  const GgufKeys& keys_;
  const GgufFile* file_;
  const GgufWindow& window_;
  ModelConfig& out_;
  const GgufArchitecture* architecture_ = &keys_.architecture();
};

}  // namespace poslab
