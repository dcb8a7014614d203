#include "poslab/model_configs/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "poslab/core/printable.h"
#include "poslab/model_configs/gguf_keys.h"
#include "poslab/model_configs/gguf_rope.h"

namespace poslab {
namespace {

class MetadataReader {
 public:
  explicit MetadataReader(const GgufFile& file) : file_(&file), keys_(file) { out_.name = file.path(); }

  ModelConfig read() {
    const GgufArchitecture& architecture = keys_.architecture();
    out_.model_type = architecture.name;
    out_.family = &keys_.family();
    read_sizes();
    const bool switched_off =
        architecture.finetuned_switches_off && !file_->boolean(keys_.key("rope.scaling.finetuned")).value_or(true);
    const ModelEncoding encoding = switched_off ? ModelEncoding::none : keys_.family().encoding;
    if (encoding != ModelEncoding::rope) {
      read_other(encoding, switched_off ? keys_.key("rope.scaling.finetuned") : keys_.architecture_source());
      return std::move(out_);
    }
    const GgufWindow window(keys_);
    GgufRopeReader rope(keys_, window, out_);
    const auto add = [&](std::string_view layer_type) {
      out_.layers.push_back(rope.read(layer_type));
      add_sizes(out_.layers.back());
    };
    if (!window.tokens() || !architecture.two_sets()) {
      add("");
    } else if (architecture.full_layers_rotate) {
      add("full_attention");
      add("sliding_attention");
    } else {
      add("sliding_attention");
      LayerPositions without;
      without.layer_type = "full_attention";
      without.encoding = ModelEncoding::none;
      without.add("encoding", "none", keys_.architecture_source());
      out_.layers.push_back(std::move(without));
    }
    check_tensors();
    return std::move(out_);
  }

 private:
  void read_sizes() {
    const auto name = file_->text("general.name");
    out_.source = name ? printable(*name) : "";
    out_.n_layers = keys_.size("block_count");
    out_.hidden_size = keys_.size("embedding_length");
    out_.n_heads = keys_.size("attention.head_count");
    out_.n_kv_heads = keys_.size("attention.head_count_kv");
    if (!out_.n_kv_heads) out_.n_kv_heads = out_.n_heads;
    out_.max_position_embeddings = keys_.size("context_length");
    out_.trained_length = keys_.size("rope.scaling.original_context_length");
    if (!out_.trained_length) out_.trained_length = out_.max_position_embeddings;
  }

  void add_sizes(LayerPositions& layer) const {
    const auto size_fact = [&](std::string name, std::optional<std::int64_t> value, std::string_view end) {
      if (value) {
        layer.add(std::move(name), std::to_string(*value),
                  file_->find_value(keys_.key(end)) ? keys_.key(end) : "derived: as many as attention heads");
      }
    };
    size_fact("n_heads", out_.n_heads, "attention.head_count");
    size_fact("n_kv_heads", out_.n_kv_heads, "attention.head_count_kv");
    size_fact("max_position_embeddings", out_.max_position_embeddings, "context_length");
    if (out_.trained_length) {
      const std::string original = keys_.key("rope.scaling.original_context_length");
      layer.add("trained_length", std::to_string(*out_.trained_length),
                file_->find_value(original) ? original : keys_.key("context_length"));
    }
  }

  void read_other(ModelEncoding encoding, std::string source) {
    LayerPositions layer;
    layer.encoding = encoding;
    layer.add("encoding", std::string(to_word(layer.encoding)), std::move(source));
    if (layer.encoding == ModelEncoding::learned) {
      const GgufTensor* table = file_->find_tensor("position_embd.weight");
      out_.table_limit = table && table->shape.size() == 2 ? table->shape[0] : out_.max_position_embeddings;
      if (out_.table_limit) {
        layer.add("table_limit", std::to_string(*out_.table_limit),
                  table ? "rows of position_embd.weight" : keys_.key("context_length"));
      }
    }
    add_sizes(layer);
    out_.layers.push_back(std::move(layer));
  }

  void check_tensors() const {
    if (keys_.architecture().latent) return;  // its q and k are products of smaller tensors
    const std::int64_t width = out_.layers.front().rope.head_dim;
    const std::int64_t heads = keys_.required(out_.n_heads, "attention.head_count"), kv_heads = *out_.n_kv_heads;
    if (heads % kv_heads != 0) keys_.fail(fmt::format("{} kv heads do not divide {} heads", kv_heads, heads));
    for (const GgufTensor& tensor : file_->tensors()) {
      if (!tensor.name.starts_with("blk.") || tensor.shape.empty()) continue;
      const std::string_view end = std::string_view(tensor.name).substr(tensor.name.find('.', 4) + 1);
      std::int64_t wanted = 0;
      if (end == "attn_q.weight") wanted = heads;
      if (end == "attn_k.weight") wanted = kv_heads;
      if (wanted == 0) continue;
      if (tensor.shape.size() != 2 || tensor.shape[0] != wanted * width) {
        keys_.fail(fmt::format("tensor {} has {} rows but {} heads of {} channels need {}", printable(tensor.name),
                               tensor.shape[0], wanted, width, wanted * width));
      }
    }
  }

  const GgufFile* file_;
  const GgufKeys keys_;
  ModelConfig out_;
};

}  // namespace

ModelConfig gguf_config(const GgufFile& file) { return MetadataReader(file).read(); }

SlidingWindow gguf_sliding_window(const GgufFile& file) {
  const GgufKeys keys(file);
  const GgufWindow window(keys);
  if (!window.tokens()) return {};
  std::vector<bool> out = window.listed_layers();
  if (out.empty()) {
    const std::int64_t period = window.period();
    for (std::int64_t layer = 0; layer < keys.required(keys.size("block_count"), "block_count"); ++layer) {
      out.push_back(period == 0 || (layer + 1) % period != 0);
    }
  }
  if (std::count(out.begin(), out.end(), true) == 0) return {};
  return {std::move(out), *window.tokens()};
}

}  // namespace poslab
