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
#include "poslab/models/families/runnable_family.h"

namespace poslab {
namespace {

// Of the encodings that a family may run with.
PositionEncoding runnable(ModelEncoding encoding) {
  for (const Method* method : all_methods()) {
    if (method == &*encoding) return PositionEncoding(*method);
  }
  throw std::invalid_argument(fmt::format("[checkpoint] the encoding {} is not run.", to_word(encoding)));
}

class GgufModelReader {
 public:
  explicit GgufModelReader(const GgufFile& file) : file_(file), read_(gguf_config(file)), blocks_(find_blocks()) {}

  TransformerConfig read() {
    TransformerConfig c;
    const GgufTensor& table = file_.tensor("token_embd.weight");
    if (table.shape.size() != 2) model_.fail("token_embd.weight is no matrix");
    c.vocab_size = table.shape[0];
    c.d_model = model_.required(read_.hidden_size, "embedding_length");
    c.n_layers = model_.required(read_.n_layers, "block_count");
    c.n_heads = model_.required(read_.n_heads, "attention.head_count");
    c.n_kv_heads = read_.n_kv_heads.value_or(c.n_heads);
    c.max_position_embeddings = model_.required(read_.max_position_embeddings, "context_length");
    c.d_ff = model_.required(file_.integer(model_.key("feed_forward_length")), "feed_forward_length");
    if (file_.integer(model_.key("expert_count")).value_or(0) > 0) model_.fail("mixtures of experts are not supported");
    c.norm = blocks_.norm;
    c.mlp = blocks_.mlp;
    c.norm_eps =
        model_.required(file_.number(model_.key(c.norm == NormKind::rms_norm ? "attention.layer_norm_rms_epsilon"
                                                                             : "attention.layer_norm_epsilon")),
                        "attention.layer_norm_*epsilon");
    fused_ = model_.has("blk.0.attn_qkv.weight");
    c.qkv_bias = model_.has(fused_ ? "blk.0.attn_qkv.bias" : "blk.0.attn_q.bias");
    c.o_bias = model_.has("blk.0.attn_output.bias");
    c.mlp_bias = model_.has("blk.0.ffn_up.bias");
    c.tied_head = !model_.has("output.weight");
    c.qk_norm = model_.has("blk.0.attn_q_norm.weight");
    c.post_norms = model_.has("blk.0.post_attention_norm.weight");
    c.embedding_norm = model_.has("token_embd_norm.weight");
    c.encoding = runnable(read_.layers.front().encoding);
    read_positions(c);
    if (blocks_.read) blocks_.read(model_, c);
    return c;
  }

  TensorNaming naming(const TransformerConfig& config) const {
    return gguf_names(config, fused_, model_.has("output_norm.bias"));
  }

 private:
  // Of the family, once gguf_config has found it.
  const GgufBlocks& find_blocks() const {
    if (read_.family->run && read_.family->run->gguf) return *read_.family->run->gguf;
    std::string known;
    for (const Family* family : families()) {
      if (family->run && family->run->gguf) known += fmt::format("{}{}", known.empty() ? "" : ", ", family->gguf.name);
    }
    model_.fail(fmt::format("the architecture {} is not run; {} are", read_.model_type, known));
  }

  void read_positions(TransformerConfig& c) const {
    c.method.alibi_bias_max = file_.number(model_.key("attention.max_alibi_bias")).value_or(c.method.alibi_bias_max);
    if (c.encoding->acts_on(Place::score_bias) && c.method.alibi_bias_max == 0)
      model_.fail("models whose attention.max_alibi_bias is 0 are not supported");
    if (const auto clip = file_.number(model_.key("attention.clamp_kqv")); clip && *clip > 0) c.qkv_clip = clip;
    if (c.encoding->learns_input()) {
      c.max_position_embeddings = read_.table_limit.value_or(c.max_position_embeddings);
    }
    if (c.encoding->acts_on(Place::rotation)) {
      c.rope = c.local_rope = read_.layers.front().rope;
      c.layout = read_.layers.front().layout;
      c.head_dim = c.rope.head_dim;
      if (const auto width = file_.integer(model_.key("attention.value_length")); width && *width != c.head_dim) {
        model_.fail(fmt::format("values of {} channels beside keys of {} are not supported", *width, c.head_dim));
      }
    } else {
      if (c.d_model % c.n_heads != 0)
        model_.fail(fmt::format("{} heads do not divide the width {}", c.n_heads, c.d_model));
      c.head_dim = c.d_model / c.n_heads;
    }
    if (read_.family->gguf.sliding.period == 0) {
      c.attention_window = file_.integer(model_.key("attention.sliding_window")).value_or(0);
    }
  }

  const GgufFile& file_;
  const ModelConfig read_;
  const GgufModel model_{file_, read_};
  const GgufBlocks& blocks_;
  bool fused_ = false;
};

// A run of whole rows of one tensor, small enough to share out.
struct Piece {
  const GgufTensor* tensor;
  std::int64_t first_row, rows, offset;
};

}  // namespace

TransformerConfig gguf_transformer_config(const GgufFile& file) {
  TransformerConfig config = GgufModelReader(file).read();
  check_config(config);
  return config;
}

template <class T>
Transformer<T> load_gguf_model(const GgufFile& file, int threads) {
  GgufModelReader reader(file);
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
