#include "poslab/model_configs/config_differences.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

namespace poslab {
namespace {

// The scalings of two sets of the same base and width, whatever words they are written in: a file may hold Llama 3.1's
// as factors of each pair.
void compare_frequencies(const ModelConfig& file, const LayerPositions& ours, const ModelConfig& config,
                         const LayerPositions& theirs, std::vector<std::string>& out) {
  const auto named = [](const LayerPositions& layer) {
    return fmt::format("{}{}", to_word(layer.rope.rope_type),
                       layer.rope.factor ? fmt::format(" {}", *layer.rope.factor) : "");
  };
  const auto original = file.trained_length ? file.trained_length : config.trained_length;
  for (const auto& length : {std::optional<std::int64_t>(), original ? std::optional(2 * *original) : original}) {
    const RopeFrequencies a = rope_frequencies(ours.rope, length), b = rope_frequencies(theirs.rope, length);
    std::size_t worst = 0;
    double most = 0;
    for (std::size_t i = 0; i < std::min(a.inv_freq.size(), b.inv_freq.size()); ++i) {
      const double off = std::abs(a.inv_freq[i] - b.inv_freq[i]) / std::max(b.inv_freq[i], 1e-300);
      if (off > most * (1 + 1e-9)) most = off, worst = i;  // the first among equals
    }
    constexpr double single_precision = 1e-5;
    const std::string at = length ? fmt::format(" for {} tokens", *length) : "";
    if (most > single_precision) {
      out.push_back(fmt::format("Pair {} turns by {} a token in {} ({}) but by {} in {} ({}){}.", worst,
                                a.inv_freq[worst], file.name, named(ours), b.inv_freq[worst], config.name,
                                named(theirs), at));
    }
    if (std::abs(a.attention_factor - b.attention_factor) > single_precision * b.attention_factor) {
      out.push_back(fmt::format("The attention factor is {} in {} but {} in {}{}.", a.attention_factor, file.name,
                                b.attention_factor, config.name, at));
    }
    if (most > single_precision) return;
  }
}

}  // namespace

std::vector<std::string> config_differences(const ModelConfig& file, const ModelConfig& config) {
  std::vector<std::string> out;
  const auto compare = [&](const std::string& what, const auto& ours, const auto& theirs) {
    if (ours && theirs && *ours != *theirs) {
      out.push_back(fmt::format("{} is {} in {} but {} in {}.", what, *ours, file.name, *theirs, config.name));
    }
  };
  compare("n_heads", file.n_heads, config.n_heads);
  compare("n_kv_heads", file.n_kv_heads, config.n_kv_heads);
  compare("n_layers", file.n_layers, config.n_layers);
  compare("hidden_size", file.hidden_size, config.hidden_size);
  compare("max_position_embeddings", file.max_position_embeddings, config.max_position_embeddings);
  compare("table_limit", file.table_limit, config.table_limit);
  for (const LayerPositions& ours : file.layers) {
    const auto alike = std::find_if(config.layers.begin(), config.layers.end(),
                                    [&](const LayerPositions& theirs) { return theirs.layer_type == ours.layer_type; });
    if (alike == config.layers.end() && &ours != &file.layers.front()) continue;
    const LayerPositions& theirs = alike == config.layers.end() ? config.layers.front() : *alike;
    const std::string of = ours.layer_type.empty() ? "" : fmt::format(" of {}", ours.layer_type);
    if (ours.encoding != theirs.encoding) {
      out.push_back(fmt::format("The encoding{} is {} in {} but {} in {}.", of, to_word(ours.encoding), file.name,
                                to_word(theirs.encoding), config.name));
      continue;
    }
    if (ours.encoding != ModelEncoding::rope) continue;
    const std::size_t before = out.size();
    compare("head_dim" + of, std::optional(ours.rope.head_dim), std::optional(theirs.rope.head_dim));
    compare("rotary_dim" + of, std::optional(ours.rope.rotary_dim), std::optional(theirs.rope.rotary_dim));
    // GGUF keeps single precision.
    const auto single = [](double v) { return std::optional(static_cast<double>(static_cast<float>(v))); };
    compare("rope_theta" + of, single(ours.rope.rope_theta), single(theirs.rope.rope_theta));
    if (out.size() == before) compare_frequencies(file, ours, config, theirs, out);
  }
  return out;
}

}  // namespace poslab
