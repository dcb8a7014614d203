// Which RoPE sets a config.json holds, by the way its class reads rope keys: flat or by layer type, older and newer
// spelling, class defaults. Internal to hf_config.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "poslab/model_configs/config_text.h"
#include "poslab/model_configs/rope_set.h"

namespace poslab {

class RopeSetsReader {
 public:
  // All must outlive the reader.
  RopeSetsReader(ConfigText& text, const HfSizes& sizes, std::string encoding_source)
      : text_(text), set_reader_(text, sizes, std::move(encoding_source)) {}

  // One for each kind of layer, those without RoPE included; at least one.
  std::vector<LayerPositions> read();

 private:
  using json = nlohmann::json;

  // A set and the partial_rotary_factor that stands outside it.
  struct SetAndAttribute {
    RopeSet set;
    std::optional<Given> attribute;
  };

  // Whether rope_parameters holds nothing but sets; only asked where the class does not say.
  bool is_nested() const;
  void read_unknown_nested();
  SetAndAttribute flat_set();
  SetAndAttribute per_layer_set(const LayerSet& layer);
  // A flat rope_parameters, or rope_theta, where the class looks for sets by layer type: never read.
  void warn_flat_parameters();
  void read_nested_only(const LayerSet& layer);
  // GPT-J and CodeGen.
  void read_rotary_dim();
  void read_chatglm();
  // theta: inside the set, then at the top level, then the class default.
  void default_theta(RopeSet& set, std::string_view key, double fallback);
  // partial_rotary_factor: inside the set, then at the top level, then the class default. A scaled type reads the set
  // again after the class has stored its own attribute, which then overwrites the inner value.
  std::optional<Given> default_partial(RopeSet& set);
  // Kinds of layers that carry no position at all beside those that rotate.
  void read_layers_without();
  void add_without(std::string layer_type, std::string source);
  void add(std::string_view layer_type, SetAndAttribute read, bool nested,
           std::optional<Sourced<std::int64_t>> rotary_dim = std::nullopt) {
    layers_.push_back(
        set_reader_.resolve(layer_type, std::move(read.set), nested, std::move(read.attribute), std::move(rotary_dim)));
  }

  ConfigText& text_;
  const HfClass& hf_ = text_.hf();
  const std::string_view type_ = text_.family().model_type;  // for messages
  RopeSetReader set_reader_;
  std::vector<LayerPositions> layers_;
};

}  // namespace poslab
