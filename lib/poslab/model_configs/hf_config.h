// What a model's config.json (Hugging Face) means for its positions, as transformers reads it: old and new spellings,
// class defaults, per-layer-type sets. Facts: tests/golden/README and the model's own classes in transformers 5.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "poslab/model_configs/model_config.h"

namespace poslab {

// The language model's part of a multimodal config (text_config, llm_config, ...) and where it stands, "text_config.";
// else the config itself and "".
struct TextPart {
  const nlohmann::json* config;
  std::string prefix;
};
TextPart text_part(const nlohmann::json& config);

// Reads a parsed config, of a multimodal model its text part; `name` stands in errors.
// Odd values that transformers follows are followed and named in warnings; what it refuses throws
// std::invalid_argument "[model_config] <name>: ..." naming the missing or bad key.
ModelConfig model_config(const nlohmann::json& config, std::string_view name);

}  // namespace poslab
