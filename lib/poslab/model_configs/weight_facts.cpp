#include "poslab/model_configs/weight_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "poslab/core/printable.h"
#include "poslab/model_configs/family.h"

namespace poslab {
namespace {

// The common part of both files' tensors.
struct Shape {
  std::string_view name, type;
  std::span<const std::int64_t> lengths;
  std::int64_t size = 0;
};

enum class Role { query, key, fused, latent_key, query_norm, key_norm, table, buckets };

struct RoleName {
  std::string_view owner;  // the part of the name before ".weight"
  Role role;
};
// Hugging Face's names and GGUF's.
constexpr RoleName role_names[] = {
    {"q_proj", Role::query},
    {"query", Role::query},
    {"attn_q", Role::query},
    {"k_proj", Role::key},
    {"key", Role::key},
    {"attn_k", Role::key},
    {"qkv_proj", Role::fused},
    {"query_key_value", Role::fused},
    {"Wqkv", Role::fused},
    {"c_attn", Role::fused},
    {"attn_qkv", Role::fused},
    {"kv_a_proj_with_mqa", Role::latent_key},
    {"attn_kv_a_mqa", Role::latent_key},
    {"q_norm", Role::query_norm},
    {"q_layernorm", Role::query_norm},
    {"attn_q_norm", Role::query_norm},
    {"k_norm", Role::key_norm},
    {"k_layernorm", Role::key_norm},
    {"attn_k_norm", Role::key_norm},
    {"wpe", Role::table},
    {"embed_positions", Role::table},
    {"position_embeddings", Role::table},
    {"position_embd", Role::table},
    {"relative_attention_bias", Role::buckets},
    {"attn_rel_b", Role::buckets},
};

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

std::optional<Role> role_of(std::string_view owner) {
  for (const RoleName& known : role_names) {
    if (last_part(owner) == known.owner) return known.role;
  }
  return std::nullopt;
}

// The first part of the name that is a number: "model.layers.12.self_attn..." is of layer 12.
std::optional<std::int64_t> layer_of(std::string_view name) {
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('.'));
    if (!part.empty() && part.size() < 7 && part.find_first_not_of("0123456789") == part.npos) {
      std::int64_t layer = 0;
      for (char c : part) layer = layer * 10 + (c - '0');
      return layer;
    }
    name.remove_prefix(std::min(name.size(), part.size() + 1));
  }
  return std::nullopt;
}

// The tensors of one role that have one shape.
struct Alike {
  std::string first;
  std::vector<std::int64_t> lengths;
  std::int64_t count = 0;

  std::string source() const {
    return count == 1 ? printable(first) : fmt::format("{} and {} alike", printable(first), count - 1);
  }
};

class TensorSurvey {
 public:
  explicit TensorSurvey(const ModelConfig* config) : config_(config) {}

  void see(const Shape& tensor) {
    ++out_.tensors;
    out_.parameters += tensor.size;
    auto& [count, parameters] = types_[std::string(tensor.type)];
    ++count;
    parameters += tensor.size;
    if (is_vision_or_audio(tensor.name) || tensor.lengths.empty()) return;
    const std::string_view kind = last_part(tensor.name);
    const std::string_view owner =
        kind.size() < tensor.name.size() ? tensor.name.substr(0, tensor.name.size() - kind.size() - 1) : "";
    const auto role = role_of(owner);
    if (!role) return;
    if (kind == "bias" && (*role == Role::query || *role == Role::key || *role == Role::fused)) {
      biases_.insert(std::string(last_part(owner)));
    }
    if (kind != "weight") return;
    if (*role == Role::query || *role == Role::fused || *role == Role::latent_key) {
      if (const auto layer = layer_of(tensor.name)) layers_.insert(*layer);
    }
    std::vector<Alike>& alike = roles_[*role];
    const auto same = std::find_if(alike.begin(), alike.end(), [&](const Alike& a) {
      return std::equal(a.lengths.begin(), a.lengths.end(), tensor.lengths.begin(), tensor.lengths.end());
    });
    if (same != alike.end()) {
      ++same->count;
    } else if (alike.size() < most_shapes) {
      alike.push_back({std::string(tensor.name), {tensor.lengths.begin(), tensor.lengths.end()}, 1});
    }
  }

  // Old checkpoints keep the frequencies that their rotation was made with.
  void see_frequencies(std::string_view name, std::string_view type, const std::vector<double>& values) {
    ++frequency_buffers_;
    if (frequency_buffers_ > 1) return;  // a copy in each layer
    const double step = type == "F16" ? 1e-3 : type == "BF16" ? 1e-2 : 1e-5;
    std::string value = fmt::format("{} numbers, {} .. {}", values.size(), values.empty() ? 0 : values.front(),
                                    values.empty() ? 0 : values.back());
    const LayerPositions* layer = config_ ? rope_layer() : nullptr;
    if (layer) {
      const std::vector<double> wanted = rope_frequencies(layer->rope).inv_freq;
      double worst = values.size() == wanted.size() ? 0 : HUGE_VAL;
      for (std::size_t i = 0; i < wanted.size() && std::isfinite(worst); ++i) {
        // A half float is coarse near 0.
        const double off = std::max(0.0, std::abs(values[i] - wanted[i]) - (type == "F16" ? 6e-8 : 0));
        worst = std::max(worst, std::isfinite(values[i]) ? off / wanted[i] : HUGE_VAL);
      }
      if (!(worst <= step)) {
        out_.differences.push_back(fmt::format("{} holds other frequencies ({}) than {} gives ({} numbers, {} .. {}).",
                                               printable(name), value, config_->name, wanted.size(), wanted.front(),
                                               wanted.back()));
      } else {
        value += fmt::format(", the config's within {:.0e}", step);
      }
    }
    add("inv_freq", value, fmt::format("{} ({})", printable(name), type));
  }

  WeightFacts finish() {
    std::vector<std::pair<std::string, std::pair<std::int64_t, std::int64_t>>> types(types_.begin(), types_.end());
    std::stable_sort(types.begin(), types.end(),
                     [](const auto& a, const auto& b) { return a.second.second > b.second.second; });
    for (const auto& [type, sum] : types) {
      out_.types.push_back(
          fmt::format("{}: {} {}, {} parameters", type, sum.first, sum.first == 1 ? "tensor" : "tensors", sum.second));
    }
    finish_layers();
    const bool latent = roles_.contains(Role::latent_key);
    for (const Alike& a : roles_[Role::query]) add_rows("query_rows", a, latent ? std::nullopt : heads(0));
    for (const Alike& a : roles_[Role::key]) add_rows("key_rows", a, latent ? std::nullopt : heads(1));
    for (const Alike& a : roles_[Role::fused]) add_rows("fused_rows", a, heads(2));
    for (const Alike& a : roles_[Role::latent_key]) finish_latent(a);
    if (!roles_[Role::query].empty() || !roles_[Role::fused].empty()) {
      add("biases", biases_.empty() ? "none" : fmt::format("{}", fmt::join(biases_, ", ")),
          "tensors of queries and keys");
    }
    for (const Alike& a : roles_[Role::query_norm]) finish_norm("query_norm", a);
    for (const Alike& a : roles_[Role::key_norm]) finish_norm("key_norm", a);
    for (const Alike& a : roles_[Role::table]) finish_table(a);
    for (const Alike& a : roles_[Role::buckets]) {
      add("bucket_rows", fmt::format("{}", fmt::join(a.lengths, " x ")), a.source());
    }
    if (frequency_buffers_ > 1) {
      add("inv_freq_buffers", std::to_string(frequency_buffers_),
          "tensors named inv_freq, of which the first was read");
    }
    return std::move(out_);
  }

 private:
  static constexpr std::size_t most_shapes = 8;

  void add(std::string name, std::string value, std::string source) {
    out_.facts.push_back({std::move(name), std::move(value), std::move(source)});
  }

  const LayerPositions* rope_layer() const {
    for (const LayerPositions& layer : config_->layers) {
      if (layer.encoding == ModelEncoding::rope) return &layer;
    }
    return nullptr;
  }

  // The widths of a head that the config knows.
  std::set<std::int64_t> widths() const {
    std::set<std::int64_t> out;
    for (const LayerPositions& layer : config_->layers) {
      if (layer.encoding == ModelEncoding::rope) out.insert(layer.rope.head_dim);
    }
    if (out.empty() && config_->hidden_size && config_->n_heads && *config_->hidden_size % *config_->n_heads == 0) {
      out.insert(*config_->hidden_size / *config_->n_heads);
    }
    return out;
  }

  // Heads of queries (0), of keys (1), of both and values (2), as the config counts them.
  std::optional<std::int64_t> heads(int which) const {
    if (!config_ || !config_->n_heads) return std::nullopt;
    const std::int64_t q = *config_->n_heads, kv = config_->n_kv_heads.value_or(q);
    return which == 0 ? q : which == 1 ? kv : q + 2 * kv;
  }

  void add_rows(std::string name, const Alike& tensor, std::optional<std::int64_t> heads) {
    // GPT-2's Conv1D stands the other way round.
    const std::string_view owner = last_part(std::string_view(tensor.first).substr(0, tensor.first.rfind('.')));
    const std::int64_t rows =
        owner == "c_attn" ? *std::max_element(tensor.lengths.begin(), tensor.lengths.end()) : tensor.lengths.front();
    std::string value = std::to_string(rows);
    if (heads) {
      const std::set<std::int64_t> known = widths();
      const auto fits = std::find_if(known.begin(), known.end(), [&](std::int64_t w) { return rows == *heads * w; });
      if (fits != known.end()) {
        value += fmt::format(" = {} heads of {}{}", *heads, *fits, name == "fused_rows" ? ", q, k and v together" : "");
      } else if (config_->family && config_->family->fused_heads_unsaid) {
        value += ", q, k and v together";  // its config may not say how many key heads there are
      } else if (config_->family && config_->family->gated_queries && !known.empty() &&
                 rows == 2 * *heads * *known.begin()) {
        value += fmt::format(" = {} heads of {}, each with a gate", *heads, *known.begin());
      } else if (!known.empty()) {
        out_.differences.push_back(fmt::format("{} has {} rows, but {} heads of {} channels in {} need {}.",
                                               printable(tensor.first), rows, *heads, *known.begin(), config_->name,
                                               *heads * *known.begin()));
      }
    }
    add(std::move(name), value, tensor.source());
  }

  void finish_latent(const Alike& tensor) {
    std::string value = std::to_string(tensor.lengths.front());
    if (config_ && rope_layer()) {
      const std::int64_t turning = rope_layer()->rope.rotary_dim, rest = tensor.lengths.front() - turning;
      if (rest > 0) {
        value += fmt::format(" = {} compressed + {} that turn", rest, turning);
      } else {
        out_.differences.push_back(fmt::format("{} has {} rows, of which {} cannot turn as {} says.",
                                               printable(tensor.first), tensor.lengths.front(), turning,
                                               config_->name));
      }
    }
    add("key_rows", value, tensor.source());
  }

  void finish_norm(const char* name, const Alike& tensor) {
    std::string value = fmt::format("{}", fmt::join(tensor.lengths, " x "));
    if (config_ && tensor.lengths.size() == 1) {
      const std::set<std::int64_t> known = widths();
      const auto count = heads(std::string_view(name) == "key_norm" ? 1 : 0);
      const auto all = [&](std::int64_t w) { return count && tensor.lengths.front() == *count * w; };
      if (known.contains(tensor.lengths.front())) {
        value += ", one for each channel of a head";
      } else if (std::any_of(known.begin(), known.end(), all)) {
        value += ", one for each channel of all heads";
      } else if (!known.empty()) {
        out_.differences.push_back(fmt::format("{} has {} numbers, which fits no head of {} channels in {}.",
                                               printable(tensor.first), tensor.lengths.front(), *known.begin(),
                                               config_->name));
      }
    }
    add(name, value, tensor.source());
  }

  void finish_table(const Alike& tensor) {
    const std::int64_t rows = tensor.lengths.front();
    add("table_rows", std::to_string(rows), tensor.source());
    if (!config_ || !config_->table_limit) return;
    // Some tables begin with rows of no position: two in OPT and BART, those up to the padding token in RoBERTa.
    const std::int64_t most = std::max(*config_->table_limit, config_->max_position_embeddings.value_or(0)) + 2;
    if (rows < *config_->table_limit || rows > most) {
      out_.differences.push_back(fmt::format("{} has {} rows, but the table in {} ends at {}.", printable(tensor.first),
                                             rows, config_->name, *config_->table_limit));
    }
  }

  void finish_layers() {
    if (layers_.empty()) return;
    const std::int64_t n = std::ssize(layers_);
    add("n_layers", std::to_string(n), "numbers in the names of attention tensors");
    // Layers without attention (a recurrence in their place) have no such tensors.
    if (config_ && config_->n_layers && n > *config_->n_layers) {
      out_.differences.push_back(
          fmt::format("There is attention in {} layers, but {} says {}.", n, config_->name, *config_->n_layers));
    } else if (config_ && config_->n_layers && *layers_.rbegin() + 1 < *config_->n_layers) {
      out_.differences.push_back(fmt::format("The last attention is in layer {}, but {} says {} layers.",
                                             *layers_.rbegin(), config_->name, *config_->n_layers));
    }
  }

  const ModelConfig* config_;
  WeightFacts out_;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> types_;
  std::map<Role, std::vector<Alike>> roles_;
  std::set<std::string> biases_;
  std::set<std::int64_t> layers_;
  std::int64_t frequency_buffers_ = 0;
};

}  // namespace

bool is_vision_or_audio(std::string_view tensor) {
  for (std::string_view word : {"vision", "visual", "audio"}) {
    if (tensor.find(word) != tensor.npos) return true;
  }
  return false;
}

WeightFacts weight_facts(const SafetensorsFile& file, const ModelConfig* config) {
  TensorSurvey survey(config);
  for (const SafetensorsTensor& tensor : file.tensors()) {
    survey.see({tensor.name, tensor.dtype_word, tensor.shape, tensor.size});
    constexpr std::int64_t most_pairs = 1 << 16;
    if (last_part(tensor.name) != "inv_freq" || !tensor.dtype || tensor.size > most_pairs ||
        is_vision_or_audio(tensor.name)) {
      continue;
    }
    std::vector<double> values(static_cast<std::size_t>(tensor.size));
    file.read<double>(tensor, values);
    survey.see_frequencies(tensor.name, tensor.dtype_word, values);
  }
  return survey.finish();
}

WeightFacts weight_facts(const GgufFile& file, const ModelConfig* config) {
  TensorSurvey survey(config);
  for (const GgufTensor& tensor : file.tensors()) {
    survey.see({tensor.name, tensor.type.word, tensor.shape, tensor.size});
  }
  return survey.finish();
}

}  // namespace poslab
