// Reads one RoPE set of a config (the whole of it, or one layer type's) into a RopeScaling, as transformers'
// standardize, validate and compute steps do. Internal to hf_config.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/model_configs/config_text.h"
#include "poslab/rope/scaling.h"

namespace poslab {

class RopeSetReader {
 public:
  // encoding_source: what said that the model has RoPE. All must outlive the reader.
  RopeSetReader(ConfigText& text, const HfSizes& sizes, std::string encoding_source)
      : text_(text), sizes_(sizes), encoding_source_(std::move(encoding_source)) {}

  // The width of a head, from the config or its class.
  Sourced<std::int64_t> head_dim() const;

  // The layer type's positions. `nested`: the set stands under its layer type. `attribute`: partial_rotary_factor
  // outside the set. rotary_dim: of classes that name the width instead of a share of the head.
  LayerPositions resolve(std::string_view layer_type, RopeSet set, bool nested,
                         std::optional<Given> attribute = std::nullopt,
                         std::optional<Sourced<std::int64_t>> rotary_dim = std::nullopt);

 private:
  using json = nlohmann::json;

  template <class... A>
  [[noreturn]] void fail(fmt::format_string<A...> text, A&&... args) const {
    text_.fail(text, std::forward<A>(args)...);
  }
  template <class... A>
  void warn(fmt::format_string<A...> text, A&&... args) {
    text_.warn(text, std::forward<A>(args)...);
  }
  void ignore(std::string path) { text_.ignore(std::move(path)); }
  const json* top(std::string_view key) const { return text_.top(key); }
  std::string path(std::string_view key) const { return text_.path(key); }
  double number(const json& v, std::string_view where) const { return text_.number(v, where); }
  std::optional<double> optional_number(const RopeSet& set, std::string_view key) const {
    return text_.optional_number(set, key);
  }
  double required_number(const RopeSet& set, std::string_view key) const { return text_.required_number(set, key); }
  static void add(LayerPositions& layer, std::string name, std::string value, std::string source) {
    layer.add(std::move(name), std::move(value), std::move(source));
  }

  // Where the values that are not simply a key of the set came from.
  struct Origins {
    std::string layout, head_dim, partial, rotary_dim, original;
  };

  Sourced<std::int64_t> head_dim_of_layer(std::string_view layer_type) const;
  RopeType read_type(const RopeSet& set);
  // Missing keys are an error, unknown ones a warning.
  void check_keys(const RopeSet& set, RopeType type);
  // Whether the class reads it beside the type's own.
  bool is_own_key(std::string_view key) const;
  // Where the set stands, for messages about keys that are absent.
  std::string set_path() const;
  Sourced<double> read_partial(const RopeSet& set, RopeType type);
  void check_width(const RopeScaling& rope);
  // The length of pre-training: a flat config's top-level value, else the inner one, else max_position_embeddings.
  // Returns where it came from.
  std::string read_original(const RopeSet& set, RopeScaling& rope, bool nested);
  void read_parameters(const RopeSet& set, RopeScaling& rope, bool nested);
  double number_or(const RopeSet& set, std::string_view key, double usual);
  void read_switch(const RopeSet& set, std::string_view key, bool nested, bool& value);
  // factor null means max_position_embeddings / original_max_position_embeddings.
  double factor_or_ratio(const RopeSet& set, const RopeScaling& rope);
  std::vector<double> list(const RopeSet& set, std::string_view key, const RopeScaling& rope) const;
  // What transformers only warns about.
  void check_values(const RopeSet& set, const RopeScaling& rope);
  // The user's factor wins over the ratio of the lengths; transformers compares it with the inner original length.
  void check_ratio(const RopeSet& set, const RopeScaling& rope);
  // HunYuan's alpha is the factor of a fixed base theta * alpha^(dim / (dim - 2)) up to max_position_embeddings.
  void read_alpha(const RopeSet& set, RopeScaling& rope);
  RopeFrequencies frequencies_of(const RopeScaling& rope) const;
  static std::string attention_factor_rule(const RopeScaling& rope);
  // mrope_section, and the form that deals the pairs out. Sections that do not fit are a warning.
  void read_sections(LayerPositions& layer, const RopeSet& set);
  void add_facts(LayerPositions& layer, const RopeSet& set, const Origins& from, double attention_factor) const;

  ConfigText& text_;
  const HfSizes& sizes_;
  const std::string encoding_source_;
  const HfClass* class_ = &text_.hf();
  const std::optional<Sourced<std::int64_t>>& max_positions_ = sizes_.max_positions;
  std::optional<Given> attribute_;  // of the set that is being read
  std::string set_layer_;           // of the set that is being read
  Given type_;                      // its rope_type, as given
  bool alpha_is_factor_ = false;    // HunYuan, see read_alpha
};

}  // namespace poslab
