// Which files a model's path means.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace poslab {

// The files of a model that a path names. All may be absent: the word may name a preset.
struct ModelFiles {
  std::optional<std::string> config;       // config.json
  std::optional<std::string> safetensors;  // of one file or the index of shards
  std::vector<std::string> gguf;           // by name
  bool pickle = false;                     // weights that are not read
};
// A config.json, a GGUF or safetensors file (with the config.json beside it) or a folder. Looks at names alone.
ModelFiles model_files(const std::string& path);

// Whether a path ends as files of weights do: .gguf, .safetensors, .safetensors.index.json.
bool names_weights(std::string_view path);

}  // namespace poslab
