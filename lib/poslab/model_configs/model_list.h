// Every preset and every family, a line each: what `poslab list models` prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "poslab/model_configs/model_config.h"

namespace poslab {

enum class ListedKind { preset, family };
constexpr auto words(ListedKind) {
  return word_table<ListedKind>({{ListedKind::preset, "preset"}, {ListedKind::family, "family"}});
}

struct ListedModel {
  ListedKind kind = ListedKind::preset;
  std::string word, name, who;
  std::optional<std::int64_t> trained_length;
  ModelEncoding encoding = ModelEncoding::rope;
  std::string scaling;
  bool runs = false;
  std::string class_name, architecture;

  static void fields(auto& self, auto&& field) {
    field("kind", self.kind, "preset: one model's config, embedded; family: every model of one class");
    field("word", self.word, "what --model takes (preset), or the model_type or GGUF architecture (family)");
    field("name", self.name, "its name, of a preset the one of its family");
    field("who", self.who, "who made it");
    field("trained_length", self.trained_length, "the length it was trained on, of a family the default of its class",
          "tokens");
    field("encoding", self.encoding, "how it tells positions apart, in the first kind of its layers");
    field("scaling", self.scaling, "its rope_type, one for each kind of layers; empty without RoPE");
    field("runs", self.runs, "whether perplexity, recall and train --init run it; the others are described");
    field("class_name", self.class_name, "Hugging Face's class, of those that run");
    field("architecture", self.architecture, "general.architecture of its GGUF files, where it has one of its own");
  }
};

// Presets by name, then the families, those that run first.
std::vector<ListedModel> listed_models();

}  // namespace poslab
