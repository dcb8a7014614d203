#include "poslab/model_configs/presets.h"

#include "poslab_models.h"  // generated from configs/models by cmake/EmbedFiles.cmake

namespace poslab {
namespace {

constexpr std::string_view ending = ".json";

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& [file, text] : models_configs()) names.emplace_back(file.substr(0, file.size() - ending.size()));
  return names;
}

std::optional<std::string_view> preset_text(std::string_view name) {
  for (const auto& [file, text] : models_configs()) {
    if (file.size() == name.size() + ending.size() && file.starts_with(name)) return text;
  }
  return std::nullopt;
}

}  // namespace poslab
