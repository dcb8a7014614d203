#include "poslab/models/stored_tensors.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace poslab {
namespace {

constexpr TensorModule gguf_modules[] = {{"model.embed_tokens", "token_embd"},
                                         {"model.embed_positions", "position_embd"},
                                         {"model.embed_layernorm", "token_embd_norm"},
                                         {"input_layernorm", "attn_norm"},
                                         {"self_attn.q_proj", "attn_q"},
                                         {"self_attn.k_proj", "attn_k"},
                                         {"self_attn.v_proj", "attn_v"},
                                         {"self_attn.q_norm", "attn_q_norm"},
                                         {"self_attn.k_norm", "attn_k_norm"},
                                         {"self_attn.o_proj", "attn_output"},
                                         {"post_attention_layernorm", "ffn_norm"},
                                         {"mlp.gate_proj", "ffn_gate"},
                                         {"mlp.up_proj", "ffn_up"},
                                         {"mlp.down_proj", "ffn_down"},
                                         {"model.norm", "output_norm"},
                                         {"lm_head", "output"}};

constexpr TensorModule gguf_fused_modules[] = {
    {"self_attn.q_proj", "attn_qkv"}, {"self_attn.k_proj", "attn_qkv"}, {"self_attn.v_proj", "attn_qkv"}};

constexpr TensorModule gguf_post_norm_modules[] = {{"post_attention_layernorm", "post_attention_norm"},
                                                   {"pre_feedforward_layernorm", "ffn_norm"},
                                                   {"post_feedforward_layernorm", "post_ffw_norm"}};

std::string renamed(const TensorNaming& naming, std::string_view module) {
  for (const auto& modules : {naming.own_modules, naming.modules}) {
    const auto found =
        std::find_if(modules.begin(), modules.end(), [&](const TensorModule& m) { return m.first == module; });
    if (found != modules.end()) return std::string(found->second);
  }
  throw std::invalid_argument(fmt::format("[checkpoint] the files of this family have no {}.", module));
}

template <class T>
void transpose(std::int64_t rows, std::int64_t columns, std::span<T> values) {
  const std::vector<T> from(values.begin(), values.end());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      values[static_cast<std::size_t>(c * rows + r)] = from[static_cast<std::size_t>(r * columns + c)];
    }
  }
}

// [heads, 3, rest] -> [3, heads, rest].
template <class T>
void split_heads(std::int64_t heads, std::span<T> values) {
  const std::vector<T> from(values.begin(), values.end());
  const std::int64_t rest = std::ssize(values) / (3 * heads);
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t part = 0; part < 3; ++part) {
      std::copy_n(from.begin() + (head * 3 + part) * rest, rest, values.begin() + (part * heads + head) * rest);
    }
  }
}

}  // namespace

TensorNaming gguf_names(const TransformerConfig& config, bool fused, bool norm_biases) {
  TensorNaming naming{.prefix = "", .layers = "blk.", .modules = gguf_modules, .norm_biases = norm_biases};
  if (config.post_norms) naming.own_modules = gguf_post_norm_modules;
  if (fused) naming.own_modules = gguf_fused_modules;
  return naming;
}

std::vector<StoredTensor> stored_tensors(const TransformerConfig& config, const TensorNaming& naming) {
  constexpr std::string_view layers = "model.layers.";
  std::vector<StoredTensor> out;
  const ParameterLayout layout(config);
  for (const ParameterSpec& spec : layout.specs()) {
    if (naming.modules.empty()) {
      out.push_back({.name = spec.name, .shape = spec.shape, .offset = spec.offset, .size = spec.size});
      out.back().less_one = naming.gains_less_one && spec.shape.size() == 1 && spec.name.ends_with(".weight");
      continue;
    }
    std::string_view module = spec.name;
    std::string before;
    const bool in_layer = module.starts_with(layers);
    if (in_layer) {
      const std::size_t dot = module.find('.', layers.size());
      before = fmt::format("{}{}.", naming.layers, module.substr(layers.size(), dot - layers.size()));
      module.remove_prefix(dot + 1);
    }
    const std::string_view kind = module.substr(module.rfind('.'));
    module.remove_suffix(kind.size());
    if (kind == ".bias" && module.ends_with("norm") && !naming.norm_biases) continue;
    std::string name = before + renamed(naming, module) + std::string(kind);
    if (!out.empty() && out.back().name == name) {
      out.back().shape[0] += spec.shape[0];
      out.back().size += spec.size;
      if (naming.fused_by_head) out.back().fused_heads = config.n_heads;
      continue;
    }
    out.push_back({.name = std::move(name), .shape = spec.shape, .offset = spec.offset, .size = spec.size});
    out.back().transposed = naming.transposed && in_layer && spec.shape.size() == 2;
  }
  for (StoredTensor& tensor : out) {
    if (tensor.transposed) std::swap(tensor.shape[0], tensor.shape[1]);
  }
  return out;
}

template <class T>
void arrange(const StoredTensor& tensor, std::span<T> values, bool to_file) {
  if (tensor.transposed) {
    const std::int64_t rows = tensor.shape[0], columns = tensor.shape[1];
    to_file ? transpose(columns, rows, values) : transpose(rows, columns, values);
  }
  if (tensor.fused_heads > 0) split_heads(tensor.fused_heads, values);
  if (tensor.less_one) {
    for (T& value : values) value += 1;
  }
}

template <class T>
void check_finite(const std::string& path, const std::string& tensor, std::span<const T> values) {
  const auto is_wrong = [](T v) { return !(std::abs(v) <= std::numeric_limits<T>::max()); };
  bool any = false;  // without an early end the loop is fast
  for (T v : values) any |= is_wrong(v);
  if (!any) return;
  throw std::invalid_argument(fmt::format("[checkpoint] {}: tensor {} holds {}, which is no weight.", path, tensor,
                                          *std::find_if(values.begin(), values.end(), is_wrong)));
}

template void check_finite(const std::string&, const std::string&, std::span<const float>);
template void check_finite(const std::string&, const std::string&, std::span<const double>);
template void arrange(const StoredTensor&, std::span<float>, bool);
template void arrange(const StoredTensor&, std::span<double>, bool);

}  // namespace poslab
