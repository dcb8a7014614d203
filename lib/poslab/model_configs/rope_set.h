// Reads one RoPE set of a config (the whole of it, or one layer type's) into a RopeScaling, as transformers'
// standardize, validate and compute steps do. Internal to hf_config.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/model_configs/config_text.h"
#include "poslab/rope/rope_scaling.h"

namespace poslab {

class RopeSetReader : public ConfigText {
 protected:
  using ConfigText::ConfigText;

  // The width of a head, from the config or its class.
  Sourced<std::int64_t> head_dim() const;

  // Adds the layer type's positions to out_. `nested`: the set stands under its layer type. rotary_dim: of classes that
  // name the width instead of a share of the head.
  void resolve(std::string_view layer_type, RopeSet set, bool nested,
               std::optional<Sourced<std::int64_t>> rotary_dim = std::nullopt);

  std::optional<Sourced<std::int64_t>> hidden_, heads_, max_positions_;
  std::string encoding_source_;
  std::optional<Given> attribute_;  // partial_rotary_factor outside the set
  bool older_ = false;              // rope_scaling or type were used

 private:
  // Where the values that are not simply a key of the set came from.
  struct Origins {
    std::string layout, head_dim, partial, rotary_dim, original;
  };

  Sourced<std::int64_t> head_dim_of_layer(std::string_view layer_type) const;
  RopeType read_type(const RopeSet& set);
  // Missing keys are an error, unknown ones a warning.
  void check_keys(const RopeSet& set, RopeType type);
  // Where the set stands, for messages about keys that are absent.
  std::string set_path() const;
  Sourced<double> read_partial(const RopeSet& set, RopeType type);
  void check_width(const RopeScaling& rope);
  // The length of pre-training: a flat config's top-level value, else the inner one, else max_position_embeddings.
  // Returns where it came from.
  std::string read_original(const RopeSet& set, RopeScaling& rope, bool nested);
  void read_parameters(const RopeSet& set, RopeScaling& rope, bool nested);
  void read_ramp(const RopeSet& set, RopeScaling& rope, bool nested);
  // factor null means max_position_embeddings / original_max_position_embeddings.
  double factor_or_ratio(const RopeSet& set, const RopeScaling& rope);
  std::vector<double> list(const RopeSet& set, std::string_view key, const RopeScaling& rope) const;
  // What transformers only warns about.
  void check_values(const RopeSet& set, const RopeScaling& rope);
  // The user's factor wins over the ratio of the lengths; transformers compares it with the inner original length.
  void check_ratio(const RopeSet& set, const RopeScaling& rope);
  // HunYuan's dynamic type with alpha is a fixed base theta * alpha^(dim / (dim - 2)) up to max_position_embeddings:
  // static NTK with alpha for its factor.
  void read_alpha(const RopeSet& set, RopeScaling& rope);
  RopeFrequencies frequencies_of(const RopeScaling& rope) const;
  static std::string attention_factor_rule(const RopeScaling& rope);
  void add_facts(LayerPositions& layer, const RopeSet& set, const Origins& from, double attention_factor) const;

  std::string set_layer_;  // of the set that is being read
  Given type_;             // its rope_type, as given
};

}  // namespace poslab
