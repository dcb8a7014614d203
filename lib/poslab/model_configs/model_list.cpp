#include "poslab/model_configs/model_list.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "poslab/model_configs/family.h"
#include "poslab/model_configs/hf_config.h"
#include "poslab/model_configs/presets.h"

namespace poslab {
namespace {

void add_family(ListedModel& model, const Family& family) {
  model.name = family.name;
  model.who = family.who;
  model.encoding = family.encoding;
  model.runs = family.run != nullptr;
  model.class_name = family.class_name;
  model.architecture = family.gguf.name;
}

void add_config(ListedModel& model, const ModelConfig& config) {
  model.trained_length = config.trained_length;
  model.encoding = config.layers.front().encoding;
  std::vector<std::string_view> seen;
  for (const LayerPositions& layer : config.layers) {
    if (layer.encoding != ModelEncoding::rope) continue;
    const std::string_view word = to_word(layer.rope.rope_type);
    if (std::find(seen.begin(), seen.end(), word) != seen.end()) continue;
    seen.push_back(word);
    model.scaling += (model.scaling.empty() ? "" : ", ") + std::string(word);
  }
}

}  // namespace

std::vector<ListedModel> listed_models() {
  std::vector<ListedModel> out;
  for (const std::string& name : preset_names()) {
    const ModelConfig config = load_model_config(name);
    ListedModel& model = out.emplace_back();
    model.word = name;
    if (config.family) add_family(model, *config.family);
    add_config(model, config);
  }
  for (const Family* family : families()) {
    ListedModel& model = out.emplace_back();
    model.kind = ListedKind::family;
    model.word = family->word();
    add_family(model, *family);
    if (family->model_type.empty()) continue;
    try {
      add_config(model, model_config({{"model_type", family->model_type}}, family->model_type));
    } catch (const std::invalid_argument&) {
      // Its class has no sizes to read a config without any by.
    }
  }
  return out;
}

}  // namespace poslab
