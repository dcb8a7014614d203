// What is known of a model's positions, whatever file said it, and reading it from any of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/core/fields.h"
#include "poslab/methods/list.h"
#include "poslab/rope/multi_axis.h"
#include "poslab/rope/rope.h"
#include "poslab/rope/scaling.h"

namespace poslab {

struct Family;

// How a model tells positions apart: a method of the list, or `relative`, another learned relative scheme (DeBERTa,
// ...), which is described and never run.
class ModelEncoding {
 public:
  using Named = const Method& (*)();
  constexpr ModelEncoding(Named method) : method_(method) {}
  static const ModelEncoding rope, learned, none, relative;

  static std::vector<std::string_view> words();
  // Throws std::invalid_argument for a word that is not among them.
  static ModelEncoding from_word(std::string_view word);
  std::string_view word() const { return method_().word(); }

  const Method& operator*() const { return method_(); }
  const Method* operator->() const { return &method_(); }
  bool operator==(const ModelEncoding& other) const { return &method_() == &other.method_(); }

 private:
  Named method_;
};
const Method& relative_method();
inline constexpr ModelEncoding ModelEncoding::rope = rope_method;
inline constexpr ModelEncoding ModelEncoding::learned = learned_method;
inline constexpr ModelEncoding ModelEncoding::none = none_method;
inline constexpr ModelEncoding ModelEncoding::relative = relative_method;

// One effective value and where it came from: a key path ("rope_scaling.factor"), "class default (llama)", or
// "derived: ...".
struct ConfigFact {
  std::string name, value, source;
};

// The positional encoding of one kind of layer.
struct LayerPositions {
  std::string layer_type;  // "full_attention", "sliding_attention", ...; empty where the model has one kind only
  ModelEncoding encoding = ModelEncoding::rope;
  RopeLayout layout = RopeLayout::half;     // with rope
  RopeScaling rope;                         // with rope: everything resolved, factor and original length included
  std::vector<std::int64_t> mrope_section;  // pairs for each axis of positions, as the config has them
  std::optional<MultiAxis> multi_axis;      // which pairs read which axis, where the config says
  double softmax_multiplier = 1;            // of q.k beside 1/sqrt(d): g(factor, mscale_all_dim)^2 in MLA models
  std::vector<ConfigFact> facts;            // in reading order

  void add(std::string name, std::string value, std::string source) {
    facts.push_back({std::move(name), std::move(value), std::move(source)});
  }
};

struct ModelConfig {
  std::string name;        // the preset or path it was read from
  std::string source;      // the config's own "_source" (presets have one), with a mark where it was not verified
  std::string model_type;  // of a GGUF file its architecture
  const Family* family = nullptr;                   // of that type; null: not known
  std::vector<LayerPositions> layers;               // at least one; the first is the one --layer-type defaults to
  std::optional<std::int64_t> n_heads, n_kv_heads;  // attention heads
  std::optional<std::int64_t> n_layers, hidden_size;
  std::optional<std::int64_t> trained_length;           // tokens: the original length where a scaling names one
  std::optional<std::int64_t> max_position_embeddings;  // tokens, as configured
  std::optional<std::int64_t> table_limit;              // learned: positions from here on have no row
  std::vector<std::string> warnings;                    // what a reader should know, one sentence each
  std::vector<std::string> ignored;                     // key paths about positions that have no effect
  std::string renamed;                                  // a sentence when the config uses older spellings, else empty
};

// Head counts, widths and lengths of a file are refused above this: the product of two still fits.
inline constexpr std::int64_t most_size = 1'000'000'000;

// From a preset's name, a config.json, a folder that holds one or else a single GGUF file, or a file of weights (GGUF,
// which is compared with a config.json beside it; safetensors, which need one). A word with '/' or ending in .json,
// .gguf or .safetensors is a path; any other is a preset if there is one of that name. Throws std::invalid_argument as
// model_config and gguf_config do; an unknown word is answered with the nearest preset.
ModelConfig load_model_config(const std::string& path_or_preset);

// The set of that layer type; without one, the first. Throws std::invalid_argument naming the types there are.
const LayerPositions& layer_positions(const ModelConfig& config, const std::optional<std::string>& layer_type);

}  // namespace poslab
