#include "poslab/models/gguf_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "poslab/core/threads.h"
#include "poslab/model_configs/gguf_config.h"
#include "poslab/models/stored_tensors.h"

namespace poslab {
namespace {

// What the code of an architecture fixes. GELU is the one that the weights were trained with: llama.cpp runs gptneox
// and mpt with the tanh form, which is at most 5e-4 off the exact one of their classes in Hugging Face.
struct Architecture {
  std::string_view name;
  NormKind norm = NormKind::rms_norm;
  MlpKind mlp = MlpKind::swiglu;
  PositionEncoding encoding = PositionEncoding::rope;
};

constexpr Architecture architectures[] = {
    {"llama"},
    {"qwen2"},
    {"qwen3"},
    {"gemma3", NormKind::rms_norm, MlpKind::geglu_tanh},
    {"gpt2", NormKind::layer_norm, MlpKind::gelu_tanh, PositionEncoding::learned},
    {"gptneox", NormKind::layer_norm, MlpKind::gelu},
    {"bloom", NormKind::layer_norm, MlpKind::gelu_tanh, PositionEncoding::alibi},
    {"mpt", NormKind::layer_norm, MlpKind::gelu, PositionEncoding::alibi},
};

class Reader {
 public:
  explicit Reader(const GgufFile& file) : file_(file), read_(gguf_config(file)), architecture_(find_architecture()) {}

  TransformerConfig read() {
    TransformerConfig c;
    const GgufTensor& table = file_.tensor("token_embd.weight");
    if (table.shape.size() != 2) fail("token_embd.weight is no matrix");
    c.vocab_size = table.shape[0];
    c.d_model = required(read_.hidden_size, "embedding_length");
    c.n_layers = required(read_.n_layers, "block_count");
    c.n_heads = required(read_.n_heads, "attention.head_count");
    c.n_kv_heads = read_.n_kv_heads.value_or(c.n_heads);
    c.max_position_embeddings = required(read_.max_position_embeddings, "context_length");
    c.d_ff = required(file_.integer(key("feed_forward_length")), "feed_forward_length");
    if (file_.integer(key("expert_count")).value_or(0) > 0) fail("mixtures of experts are not supported");
    c.norm = architecture_.norm;
    c.mlp = architecture_.mlp;
    c.norm_eps = required(file_.number(key(c.norm == NormKind::rms_norm ? "attention.layer_norm_rms_epsilon"
                                                                        : "attention.layer_norm_epsilon")),
                          "attention.layer_norm_*epsilon");
    fused_ = has("blk.0.attn_qkv.weight");
    c.qkv_bias = has(fused_ ? "blk.0.attn_qkv.bias" : "blk.0.attn_q.bias");
    c.o_bias = has("blk.0.attn_output.bias");
    c.mlp_bias = has("blk.0.ffn_up.bias");
    c.tied_head = !has("output.weight");
    c.qk_norm = has("blk.0.attn_q_norm.weight");
    c.post_norms = has("blk.0.post_attention_norm.weight");
    c.embedding_norm = has("token_embd_norm.weight");
    c.encoding = architecture_.encoding;
    read_positions(c);
    if (architecture_.name == "gemma3") read_gemma3(c);
    if (architecture_.name == "gptneox") {
      c.parallel_residual = file_.boolean(key("use_parallel_residual")).value_or(true);
    }
    return c;
  }

  TensorNaming naming(const TransformerConfig& config) const {
    return gguf_names(config, fused_, has("output_norm.bias"));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(fmt::format("[checkpoint] {}: {}.", file_.path(), what));
  }
  std::string key(std::string_view end) const { return fmt::format("{}.{}", read_.model_type, end); }
  bool has(std::string_view tensor) const { return file_.find_tensor(tensor) != nullptr; }
  template <class V>
  V required(const std::optional<V>& value, std::string_view end) const {
    if (!value) fail(fmt::format("has no {}", key(end)));
    return *value;
  }

  const Architecture& find_architecture() const {
    std::string known;
    for (const Architecture& a : architectures) {
      if (a.name == read_.model_type) return a;
      known += fmt::format("{}{}", known.empty() ? "" : ", ", a.name);
    }
    fail(fmt::format("the architecture {} is not run; {} are", read_.model_type, known));
  }

  void read_positions(TransformerConfig& c) const {
    c.alibi_bias_max = file_.number(key("attention.max_alibi_bias")).value_or(c.alibi_bias_max);
    if (c.encoding == PositionEncoding::alibi && c.alibi_bias_max == 0) fail("models without ALiBi are not supported");
    if (const auto clip = file_.number(key("attention.clamp_kqv")); clip && *clip > 0) c.qkv_clip = clip;
    if (c.encoding == PositionEncoding::learned) {
      c.max_position_embeddings = read_.table_limit.value_or(c.max_position_embeddings);
    }
    if (c.encoding == PositionEncoding::rope) {
      c.rope = c.local_rope = read_.layers.front().rope;
      c.layout = read_.layers.front().layout;
      c.head_dim = c.rope.head_dim;
      if (const auto width = file_.integer(key("attention.value_length")); width && *width != c.head_dim) {
        fail(fmt::format("values of {} channels beside keys of {} are not supported", *width, c.head_dim));
      }
    } else {
      if (c.d_model % c.n_heads != 0) fail(fmt::format("{} heads do not divide the width {}", c.n_heads, c.d_model));
      c.head_dim = c.d_model / c.n_heads;
    }
    if (architecture_.name != "gemma3") {
      c.attention_window = file_.integer(key("attention.sliding_window")).value_or(0);
    }
  }

  void read_gemma3(TransformerConfig& c) const {
    for (const char* end : {"final_logit_softcapping", "attn_logit_softcapping"}) {
      if (file_.number(key(end)).value_or(0) != 0) fail(fmt::format("{} is not supported", key(end)));
    }
    c.embedding_scale = static_cast<double>(std::sqrt(static_cast<float>(c.d_model)));
    for (const LayerPositions& layer : read_.layers) {
      if (layer.layer_type == "sliding_attention") c.local_rope = layer.rope;
    }
    // llama.cpp tells the 27B model, whose queries are scaled otherwise, by its layers.
    constexpr std::int64_t layers_of_27b = 62;
    if (const auto scale = file_.number(key("attention.scale")); scale && *scale > 0) {
      c.query_scale = scale;
    } else if (c.n_layers == layers_of_27b) {
      c.query_scale = 1 / std::sqrt(static_cast<double>(c.d_model) / static_cast<double>(c.n_heads));
    }
    check_config(c);  // before a list of its layers is made
    SlidingWindow sliding = gguf_sliding_window(file_);
    c.local_layers = std::move(sliding.layers);
    c.local_window = sliding.tokens;
  }

  const GgufFile& file_;
  const ModelConfig read_;
  const Architecture& architecture_;
  bool fused_ = false;
};

// A run of whole rows of one tensor, small enough to share out.
struct Piece {
  const GgufTensor* tensor;
  std::int64_t first_row, rows, offset;
};

}  // namespace

TransformerConfig gguf_transformer_config(const GgufFile& file) {
  TransformerConfig config = Reader(file).read();
  check_config(config);
  return config;
}

template <class T>
Transformer<T> load_gguf_model(const GgufFile& file, int threads) {
  Reader reader(file);
  const TransformerConfig config = reader.read();
  check_config(config);
  const std::vector<StoredTensor> tensors = stored_tensors(config, reader.naming(config));
  const auto find = [&](const std::string& name) { return file.find_tensor(name); };
  // What gguf_config has read already.
  check_tensors(file, tensors, find, [](const std::string& name) {
    return name == "rope_freqs.weight" || name.starts_with("rope_factors_") || name.ends_with(".attn_rot_embd.weight");
  });
  std::vector<Piece> pieces;
  for (const StoredTensor& tensor : tensors) {
    const GgufTensor* found = find(tensor.name);
    const std::int64_t row = found->row_size(), n_rows = found->size / row;
    const std::int64_t step = std::max<std::int64_t>(1, (1 << 20) / row);
    for (std::int64_t first = 0; first < n_rows; first += step) {
      pieces.push_back({found, first, std::min(step, n_rows - first), tensor.offset + first * row});
    }
  }
  Transformer<T> model(config);
  const std::span<T> values = model.values();
  parallel_for(std::ssize(pieces), threads, [&](std::int64_t i) {
    const Piece& piece = pieces[static_cast<std::size_t>(i)];
    const auto size = static_cast<std::size_t>(piece.rows * piece.tensor->row_size());
    const std::span<T> to = values.subspan(static_cast<std::size_t>(piece.offset), size);
    if constexpr (std::is_same_v<T, float>) {
      file.read_rows(*piece.tensor, piece.first_row, to);
    } else {
      std::vector<float> narrow(size);
      file.read_rows(*piece.tensor, piece.first_row, narrow);
      std::copy(narrow.begin(), narrow.end(), to.begin());
    }
    check_finite<T>(file.path(), piece.tensor->name, to);
  });
  return model;
}

template Transformer<float> load_gguf_model(const GgufFile&, int);
template Transformer<double> load_gguf_model(const GgufFile&, int);

}  // namespace poslab
