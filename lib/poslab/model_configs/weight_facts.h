// What a checkpoint's tensors say about positions by their names, shapes and types, beside what its config says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/formats/gguf.h"
#include "poslab/formats/safetensors.h"
#include "poslab/model_configs/model_config.h"

namespace poslab {

struct WeightFacts {
  std::int64_t tensors = 0, parameters = 0;
  std::vector<std::string> types;  // "BF16: 272 tensors, 134515008 parameters", most parameters first
  std::vector<ConfigFact> facts;   // rows of q and k, biases, norms, table, frequency buffers; source: the tensors
  std::vector<std::string> differences;  // from the config, one sentence each
};

// Whether a tensor belongs to a vision or audio part, by its name.
bool is_vision_or_audio(std::string_view tensor);

// `config` may be null: nothing is compared then. Tensors of vision and audio parts are counted and not looked at. Only
// the bytes of inv_freq buffers are read. Throws what SafetensorsFile::read throws.
WeightFacts weight_facts(const SafetensorsFile& file, const ModelConfig* config);
WeightFacts weight_facts(const GgufFile& file, const ModelConfig* config);

}  // namespace poslab
