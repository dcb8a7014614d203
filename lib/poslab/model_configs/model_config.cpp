#include "poslab/model_configs/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "poslab/core/suggestion.h"
#include "poslab/formats/json_file.h"
#include "poslab/formats/model_files.h"
#include "poslab/model_configs/config_differences.h"
#include "poslab/model_configs/gguf_config.h"
#include "poslab/model_configs/hf_config.h"
#include "poslab/model_configs/presets.h"

namespace poslab {
namespace {

class Relative final : public Method {
 public:
  std::string_view word() const override { return "relative"; }
  std::string_view sentence() const override { return "lets scores depend on learned vectors of the distance"; }
  std::string_view source() const override {
    return "Shaw et al. 2018, arXiv:1803.02155; Dai et al. 2019; He et al. 2020";
  }
  std::string_view used_by() const override { return "DeBERTa, XLNet, Transformer-XL"; }
  std::vector<Place> places() const override { return {Place::content}; }
};

}  // namespace

const Method& relative_method() {
  static const Relative method;
  return method;
}

std::vector<std::string_view> ModelEncoding::words() {
  std::vector<std::string_view> words = PositionEncoding::words();
  words.push_back(relative_method().word());
  return words;
}

ModelEncoding ModelEncoding::from_word(std::string_view word) {
  if (word == relative_method().word()) return relative;
  for (const Named named : listed_methods()) {
    if (named().word() == word) return named;
  }
  throw std::invalid_argument(fmt::format("[model_config] there is no encoding '{}'.", word));
}
namespace {

namespace fs = std::filesystem;

ModelConfig read_gguf_config(const std::string& path, const std::optional<std::string>& beside) {
  ModelConfig config = gguf_config(GgufFile(path));
  if (beside) {
    const auto differences = config_differences(config, model_config(read_json_file(*beside), *beside));
    config.warnings.insert(config.warnings.end(), differences.begin(), differences.end());
  }
  return config;
}

}  // namespace

ModelConfig load_model_config(const std::string& path_or_preset) {
  const bool path_like = path_or_preset.find('/') != path_or_preset.npos || path_or_preset.ends_with(".json") ||
                         names_weights(path_or_preset);
  if (!path_like) {
    if (const auto text = preset_text(path_or_preset)) {
      return model_config(parse_json(*text, fmt::format("preset {}", path_or_preset)), path_or_preset);
    }
    std::error_code error;
    if (!fs::exists(path_or_preset, error)) {
      const std::vector<std::string> names = preset_names();
      const std::string near = suggestion(path_or_preset, names);
      throw std::invalid_argument(
          fmt::format("[model_config] '{}' is neither a preset nor a file{}", path_or_preset,
                      near.empty() ? fmt::format("; the presets: {}.", fmt::join(names, ", ")) : near));
    }
  }
  const ModelFiles files = model_files(path_or_preset);
  if (path_or_preset.ends_with(".gguf") && !files.gguf.empty() && files.gguf[0] == path_or_preset) {
    return read_gguf_config(path_or_preset, files.config);
  }
  if (files.config) return model_config(read_json_file(*files.config), *files.config);
  if (std::error_code error; fs::is_directory(path_or_preset, error)) {
    if (files.gguf.size() == 1) return read_gguf_config(files.gguf[0], std::nullopt);
    throw std::invalid_argument(fmt::format(
        "[model_config] the folder {} has no config.json{}.", path_or_preset,
        files.gguf.empty()
            ? ""
            : fmt::format(" and {} GGUF files: name one of {}", files.gguf.size(), fmt::join(files.gguf, ", "))));
  }
  if (files.safetensors) {
    throw std::invalid_argument(fmt::format("[model_config] {} has no config.json beside it.", path_or_preset));
  }
  return model_config(read_json_file(path_or_preset), path_or_preset);
}

const LayerPositions& layer_positions(const ModelConfig& config, const std::optional<std::string>& layer_type) {
  if (!layer_type) return config.layers.front();
  std::vector<std::string> types;
  for (const LayerPositions& layer : config.layers) {
    if (layer.layer_type == *layer_type) return layer;
    if (!layer.layer_type.empty()) types.push_back(layer.layer_type);
  }
  if (types.empty()) {
    throw std::invalid_argument(
        fmt::format("[model_config] {} has one set for all layers, no layer_type '{}'.", config.name, *layer_type));
  }
  throw std::invalid_argument(fmt::format("[model_config] {} has no layer_type '{}', but {}.", config.name, *layer_type,
                                          fmt::join(types, ", ")));
}

}  // namespace poslab
