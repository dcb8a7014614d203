#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "experiments/experiment.h"
#include "poslab/formats/model_files.h"
#include "poslab/model_configs/config_differences.h"
#include "poslab/model_configs/gguf_config.h"
#include "poslab/model_configs/model_config.h"
#include "poslab/model_configs/weight_facts.h"

namespace poslab {
namespace {

struct Params {
  FilePath model = "llama-3.1-8b";

  static void fields(auto& self, auto&& field) {
    field("model", self.model,
          "a config.json, a GGUF or safetensors file, a folder with any of them, or a preset (gpt-2, gemma-3-4b, ...)");
  }
};

struct Summary {
  std::optional<std::string> model_type, config_source;
  std::optional<ModelEncoding> encoding;
  std::optional<RopeLayout> layout;
  std::optional<std::int64_t> head_dim, rotary_dim;
  std::optional<double> rope_theta;
  std::optional<RopeType> rope_type;
  std::optional<double> factor, attention_factor, softmax_multiplier;
  std::optional<std::string> multi_axis;
  std::optional<std::vector<std::int64_t>> mrope_section;
  std::optional<std::int64_t> trained_length, max_position_embeddings, table_limit;
  std::vector<std::string> weights, dtypes;
  std::optional<std::int64_t> parameters;
  std::vector<std::string> layer_types, warnings, ignored;

  static void fields(auto& self, auto&& field) {
    field("model_type", self.model_type, "the config's class, or the architecture of a GGUF file");
    field("config_source", self.config_source, "where the config was taken from, if it says so");
    field("encoding", self.encoding, "how the model tells positions apart (the first layer type's, as what follows)");
    field("layout", self.layout, "RoPE: which channels form a pair");
    field("head_dim", self.head_dim, "RoPE: channels of a head", "channels");
    field("rotary_dim", self.rotary_dim, "RoPE: channels that are rotated", "channels");
    field("rope_theta", self.rope_theta, "RoPE: base of the frequencies");
    field("rope_type", self.rope_type, "RoPE: how the frequencies are scaled");
    field("factor", self.factor, "RoPE: by how much");
    field("attention_factor", self.attention_factor, "RoPE: multiplies cos and sin, so scores carry its square");
    field("softmax_multiplier", self.softmax_multiplier, "RoPE: multiplies the softmax scale (MLA models)");
    field("multi_axis", self.multi_axis, "RoPE: which pairs read which axis of the positions");
    field("mrope_section", self.mrope_section, "RoPE: pairs for each of these axes", "pairs");
    field("trained_length", self.trained_length, "positions seen in pre-training, as far as the config says", "tokens");
    field("max_position_embeddings", self.max_position_embeddings, "length the config promises", "tokens");
    field("table_limit", self.table_limit, "learned table: positions from here on have no row", "tokens");
    field("weights", self.weights, "files of weights that were looked into and compared with the config");
    field("dtypes", self.dtypes, "storage types of the first of these, with the tensors and parameters of each");
    field("parameters", self.parameters, "numbers in its tensors");
    field("layer_types", self.layer_types, "kinds of layers that differ in their positions");
    field("warnings", self.warnings,
          "keys that are defaulted, contradictory, renamed, or oddly treated, and where config and weights disagree");
    field("ignored", self.ignored, "keys that have no effect");
  }
};

struct Row {
  std::optional<std::string> layer_type;
  std::string name, value, source;

  static void fields(auto& self, auto&& field) {
    field("layer_type", self.layer_type, "kind of layer; empty where all are alike");
    field("name", self.name, "what is set");
    field("value", self.value, "to what");
    field("source", self.source,
          "a key of the config, the default of its class, how it was derived, or tensors of the weights");
  }
};

std::string describe_rope(const LayerPositions& layer, double attention_factor) {
  const RopeScaling& rope = layer.rope;
  std::string text = fmt::format(
      "{} rotates {} of {} channels of each head by the position, in pairs ({}), base {}.",
      layer.layer_type.empty() ? "RoPE" : layer.layer_type + ": RoPE", rope.rotary_dim, rope.head_dim,
      layer.layout == RopeLayout::half ? fmt::format("i, i + {}", rope.rotary_dim / 2) : "2i, 2i + 1", rope.rope_theta);
  if (!rope.rope_type.is_scaled()) return text + " No scaling.";
  text += fmt::format(" Scaling: {}", to_word(rope.rope_type));
  if (rope.factor) text += fmt::format(", factor {}", *rope.factor);
  if (rope.original_max_position_embeddings) {
    text += fmt::format(", trained at {} tokens", *rope.original_max_position_embeddings);
  }
  const double logits = attention_factor * attention_factor * layer.softmax_multiplier;
  if (logits != 1) text += fmt::format("; scores are multiplied by {:.4g}", logits);
  return text + ".";
}

// Positions on several axes, in pairs for each.
std::string describe_axes(const LayerPositions& layer) {
  if (layer.mrope_section.empty()) return "";
  std::int64_t sum = 0;
  for (const std::int64_t section : layer.mrope_section) sum += section;
  std::string text =
      fmt::format("\nPositions have {} axes: sections of {} pairs, in sum {} of {}", layer.mrope_section.size(),
                  fmt::join(layer.mrope_section, ", "), sum, layer.rope.rotary_dim / 2);
  if (!layer.multi_axis) return text + ".";
  return text + fmt::format(" ({}: {}).", layer.multi_axis->word(), (*layer.multi_axis)->sentence);
}

std::string describe_layer(const LayerPositions& layer, const ModelConfig& config) {
  const std::string who = layer.layer_type.empty() ? "" : layer.layer_type + ": ";
  if (layer.encoding == ModelEncoding::rope) {
    return describe_rope(layer, rope_frequencies(layer.rope).attention_factor) + describe_axes(layer);
  }
  if (layer.encoding->learns_input()) {
    return who + fmt::format(
                     "Each position has a learned vector, added to the token's. The table ends at position {}: "
                     "a longer text has no vectors for its end.",
                     config.table_limit.value_or(0) - 1);
  }
  if (layer.encoding->places().empty()) {
    return who +
           "No positional encoding: order reaches these layers through the causal mask, a recurrence, or other "
           "layers only.";
  }
  return who + fmt::format("{}: a method that {}.", to_word(layer.encoding), layer.encoding->sentence());
}

// What the weights say, those of the first file as rows, and where any of them disagrees with the config.
void look_into_weights(const ModelFiles& files, const std::optional<ModelConfig>& config,
                       TypedReport<Summary, Row>& report) {
  Summary& s = report.summary;
  const ModelConfig* beside = config ? &*config : nullptr;
  const auto add = [&](const std::string& path, const WeightFacts& weights) {
    if (s.weights.empty()) {
      s.dtypes = weights.types;
      s.parameters = weights.parameters;
      for (const ConfigFact& fact : weights.facts) report.rows.push_back({{}, fact.name, fact.value, fact.source});
    }
    s.weights.push_back(path);
    s.warnings.insert(s.warnings.end(), weights.differences.begin(), weights.differences.end());
  };
  if (files.safetensors) add(*files.safetensors, weight_facts(SafetensorsFile(*files.safetensors), beside));
  for (const std::string& path : files.gguf) {
    const GgufFile file(path);
    if (files.config && config) {
      const ModelConfig own = gguf_config(file);
      for (const std::string& difference : config_differences(own, *config)) {
        if (std::find(s.warnings.begin(), s.warnings.end(), difference) == s.warnings.end()) {
          s.warnings.push_back(difference);
        }
      }
    }
    add(path, weight_facts(file, beside));
  }
  if (files.pickle && !files.safetensors) {
    s.warnings.push_back("The weights in pytorch_model*.bin are a PyTorch pickle, which is not read.");
  }
}

TypedReport<Summary, Row> run(const Params& p, const RunContext&) {
  const ModelFiles files = model_files(p.model);
  const bool weights_alone = files.safetensors && !files.config && files.gguf.empty();
  std::optional<ModelConfig> config;
  if (!weights_alone) config = load_model_config(p.model);
  TypedReport<Summary, Row> report;
  Summary& s = report.summary;
  std::vector<std::string> lines;
  if (config) {
    s.model_type = config->model_type;
    if (!config->source.empty()) s.config_source = config->source;
    s.trained_length = config->trained_length;
    s.max_position_embeddings = config->max_position_embeddings;
    s.table_limit = config->table_limit;
    s.warnings = config->warnings;
    if (!config->renamed.empty()) s.warnings.push_back(config->renamed);
    s.ignored = config->ignored;

    const LayerPositions& first = config->layers.front();
    s.encoding = first.encoding;
    if (first.encoding == ModelEncoding::rope) {
      s.layout = first.layout;
      s.head_dim = first.rope.head_dim;
      s.rotary_dim = first.rope.rotary_dim;
      s.rope_theta = first.rope.rope_theta;
      s.rope_type = first.rope.rope_type;
      s.factor = first.rope.factor;
      s.attention_factor = rope_frequencies(first.rope).attention_factor;
      s.softmax_multiplier = first.softmax_multiplier;
      if (first.multi_axis) s.multi_axis = first.multi_axis->word();
      if (!first.mrope_section.empty()) s.mrope_section = first.mrope_section;
    }
    for (const LayerPositions& layer : config->layers) {
      std::optional<std::string> type;
      if (!layer.layer_type.empty()) s.layer_types.push_back(*(type = layer.layer_type));
      for (const ConfigFact& fact : layer.facts) report.rows.push_back({type, fact.name, fact.value, fact.source});
      lines.push_back(describe_layer(layer, *config));
    }
  } else {
    lines.push_back("There is no config.json beside these weights: their shapes alone do not say how positions enter.");
  }
  look_into_weights(files, config, report);
  if (!s.weights.empty()) {
    lines.push_back(
        fmt::format("Weights: {} parameters in {} ({}).", *s.parameters, s.weights[0], fmt::join(s.dtypes, "; ")));
  }
  if (!s.warnings.empty()) {
    lines.push_back(fmt::format("{} {} to know about this {}:", s.warnings.size(),
                                s.warnings.size() == 1 ? "thing" : "things", s.weights.empty() ? "config" : "model"));
    for (const std::string& warning : s.warnings) lines.push_back("  - " + warning);
  }
  report.conclusion = fmt::format("{}", fmt::join(lines, "\n"));
  return report;
}

Experiment describe_inspect() {
  Experiment e = describe<Params, Summary, Row>(
      "inspect",
      "What do a model's config and weights really say about positions, and where does each value come from?",
      "poslab inspect gemma-3-4b", run);
  e.positional = "model";
  return e;
}

const Registrar registrar("inspect", describe_inspect);

}  // namespace
}  // namespace poslab
