#include "poslab/formats/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "poslab/core/printable.h"

namespace poslab {
namespace {

struct Architecture {
  std::string_view name;
  ModelEncoding encoding = ModelEncoding::rope;
  RopeLayout layout = RopeLayout::half;
  double sliding_theta = 0;  // base of the sliding layers where the file names none; 0: all layers are alike
};

constexpr Architecture architectures[] = {
    {"llama", ModelEncoding::rope, RopeLayout::interleaved},
    {"mistral3", ModelEncoding::rope, RopeLayout::interleaved},
    {"arcee", ModelEncoding::rope, RopeLayout::interleaved},
    {"internlm2", ModelEncoding::rope, RopeLayout::interleaved},
    {"minicpm", ModelEncoding::rope, RopeLayout::interleaved},
    {"xverse", ModelEncoding::rope, RopeLayout::interleaved},
    {"command-r", ModelEncoding::rope, RopeLayout::interleaved},
    {"olmo", ModelEncoding::rope, RopeLayout::interleaved},
    {"granite", ModelEncoding::rope, RopeLayout::interleaved},
    {"chatglm", ModelEncoding::rope, RopeLayout::interleaved},
    {"qwen2"},
    {"qwen2moe"},
    {"qwen3"},
    {"qwen3moe"},
    {"phi2"},
    {"phi3"},
    {"gemma"},
    {"gemma2"},
    {"gemma3", ModelEncoding::rope, RopeLayout::half, 10000},
    {"gptneox"},
    {"falcon"},
    {"stablelm"},
    {"starcoder2"},
    {"olmo2"},
    {"olmoe"},
    {"nemotron"},
    {"exaone"},
    {"gpt2", ModelEncoding::learned},
    {"starcoder", ModelEncoding::learned},
    {"bert", ModelEncoding::learned},
    {"bloom", ModelEncoding::alibi},
    {"mpt", ModelEncoding::alibi},
    {"refact", ModelEncoding::alibi},
    {"jina-bert-v2", ModelEncoding::alibi},
    {"t5", ModelEncoding::t5},
    {"t5encoder", ModelEncoding::t5},
    {"mamba", ModelEncoding::none},
};

class Reader {
 public:
  explicit Reader(const GgufFile& file) : file_(&file) { out_.name = file.path(); }

  ModelConfig read() {
    find_architecture();
    out_.source = file_->text("general.name") ? printable(*file_->text("general.name")) : "";
    out_.n_layers = size("block_count");
    out_.hidden_size = size("embedding_length");
    out_.n_heads = size("attention.head_count");
    out_.n_kv_heads = size("attention.head_count_kv");
    if (!out_.n_kv_heads) out_.n_kv_heads = out_.n_heads;
    out_.max_position_embeddings = size("context_length");
    out_.trained_length = size("rope.scaling.original_context_length");
    if (!out_.trained_length) out_.trained_length = out_.max_position_embeddings;
    if (architecture_->encoding != ModelEncoding::rope) {
      read_other();
      return std::move(out_);
    }
    if (architecture_->sliding_theta > 0) {
      out_.layers.push_back(rope("full_attention"));
      out_.layers.push_back(rope("sliding_attention"));
    } else {
      out_.layers.push_back(rope(""));
    }
    check_tensors();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(fmt::format("[gguf_config] {}: {}.", out_.name, what));
  }

  std::string key(std::string_view end) const { return fmt::format("{}.{}", architecture_->name, end); }

  void find_architecture() {
    const auto name = file_->text("general.architecture");
    if (!name) fail("has no general.architecture");
    const auto* found = std::find_if(std::begin(architectures), std::end(architectures),
                                     [&](const Architecture& a) { return a.name == *name; });
    if (found == std::end(architectures)) {
      std::string known;
      for (const Architecture& a : architectures) known += fmt::format("{}{}", known.empty() ? "" : ", ", a.name);
      fail(fmt::format("the architecture {} is not known; {} are", printable(*name), known));
    }
    architecture_ = found;
    out_.model_type = *name;
  }

  std::optional<std::int64_t> size(std::string_view end) const {
    const auto* value = file_->find_value(key(end));
    if (value && value->type == GgufType::array) return uniform(end);
    const auto v = file_->integer(key(end));
    if (v && *v < 1) fail(fmt::format("{} must be above 0 but is {}", key(end), *v));
    return v;
  }

  // A value for each layer, all the same.
  std::optional<std::int64_t> uniform(std::string_view end) const {
    const auto values = file_->numbers(key(end));
    if (values.empty() || std::any_of(values.begin(), values.end(), [&](double v) { return v != values.front(); })) {
      fail(fmt::format("{} differs from layer to layer, which is not supported", key(end)));
    }
    if (!(values.front() >= 1 && values.front() < 1e9))
      fail(fmt::format("{} must be above 0 but is {}", key(end), values.front()));
    return static_cast<std::int64_t>(values.front());
  }

  std::optional<double> positive(std::string_view end) const {
    const auto v = file_->number(key(end));
    if (v && !(*v > 0 && std::isfinite(*v))) fail(fmt::format("{} must be above 0 but is {}", key(end), *v));
    return v;
  }

  std::int64_t required(std::optional<std::int64_t> value, std::string_view end) const {
    if (!value) fail(fmt::format("has no {}", key(end)));
    return *value;
  }

  static void add(LayerPositions& layer, std::string name, std::string value, std::string source) {
    layer.facts.push_back({std::move(name), std::move(value), std::move(source)});
  }

  void add_sizes(LayerPositions& layer) const {
    const auto size_fact = [&](std::string name, std::optional<std::int64_t> value, std::string_view end) {
      if (value) {
        add(layer, std::move(name), std::to_string(*value),
            file_->find_value(key(end)) ? key(end) : "derived: as many as attention heads");
      }
    };
    size_fact("n_heads", out_.n_heads, "attention.head_count");
    size_fact("n_kv_heads", out_.n_kv_heads, "attention.head_count_kv");
    size_fact("max_position_embeddings", out_.max_position_embeddings, "context_length");
    if (out_.trained_length) {
      const std::string original = key("rope.scaling.original_context_length");
      add(layer, "trained_length", std::to_string(*out_.trained_length),
          file_->find_value(original) ? original : key("context_length"));
    }
  }

  void read_other() {
    LayerPositions layer;
    layer.encoding = architecture_->encoding;
    add(layer, "encoding", std::string(to_word(layer.encoding)),
        fmt::format("general.architecture {}", architecture_->name));
    if (layer.encoding == ModelEncoding::learned) {
      const GgufTensor* table = file_->find_tensor("position_embd.weight");
      out_.table_limit = table && table->shape.size() == 2 ? table->shape[0] : out_.max_position_embeddings;
      if (out_.table_limit) {
        add(layer, "table_limit", std::to_string(*out_.table_limit),
            table ? "rows of position_embd.weight" : key("context_length"));
      }
    }
    add_sizes(layer);
    out_.layers.push_back(std::move(layer));
  }

  // The numbers of a tensor that has one for each pair.
  std::vector<double> pair_factors(std::string_view name, std::int64_t pairs) const {
    const GgufTensor* tensor = file_->find_tensor(name);
    if (!tensor) return {};
    if (tensor->size != pairs) {
      fail(fmt::format("{} has {} numbers for {} pairs", name, tensor->size, pairs));
    }
    std::vector<float> values(static_cast<std::size_t>(pairs));
    file_->read(*tensor, values);
    for (float v : values) {
      if (!(v > 0 && std::isfinite(v))) fail(fmt::format("{} holds {}, which divides no frequency", name, v));
    }
    return {values.begin(), values.end()};
  }

  LayerPositions rope(std::string_view layer_type) {
    const bool sliding = layer_type == "sliding_attention";
    LayerPositions layer;
    layer.layer_type = layer_type;
    layer.layout = architecture_->layout;
    RopeScaling& rope = layer.rope;
    add(layer, "encoding", "rope", fmt::format("general.architecture {}", architecture_->name));
    add(layer, "layout", std::string(to_word(layer.layout)),
        layer.layout == RopeLayout::interleaved
            ? fmt::format("general.architecture {}: q and k are stored so", architecture_->name)
            : fmt::format("general.architecture {}", architecture_->name));

    std::string source = key("attention.key_length");
    if (const auto width = size("attention.key_length")) {
      rope.head_dim = *width;
    } else {
      const std::int64_t hidden = required(out_.hidden_size, "embedding_length");
      const std::int64_t heads = required(out_.n_heads, "attention.head_count");
      if (hidden % heads != 0) fail(fmt::format("{} heads do not divide the width {}", heads, hidden));
      rope.head_dim = hidden / heads;
      source = "derived: embedding_length / head_count";
    }
    add(layer, "head_dim", std::to_string(rope.head_dim), source);
    const auto turning = size("rope.dimension_count");
    rope.rotary_dim = turning.value_or(rope.head_dim);
    if (rope.rotary_dim > rope.head_dim || rope.rotary_dim % 2 != 0) {
      fail(fmt::format("{} must be even and at most the head's {} channels but is {}", key("rope.dimension_count"),
                       rope.head_dim, rope.rotary_dim));
    }
    rope.partial_rotary_factor = static_cast<double>(rope.rotary_dim) / static_cast<double>(rope.head_dim);
    add(layer, "rotary_dim", std::to_string(rope.rotary_dim),
        turning ? key("rope.dimension_count") : "derived: head_dim");

    read_theta(layer, sliding);
    if (out_.max_position_embeddings) {
      rope.max_position_embeddings = static_cast<double>(*out_.max_position_embeddings);
    }
    if (!sliding) read_scaling(layer);
    if (sliding) add(layer, "rope_type", "default", "sliding layers are not scaled");
    add_sizes(layer);
    return layer;
  }

  void read_theta(LayerPositions& layer, bool sliding) const {
    const auto base = positive("rope.freq_base"), own = positive("rope.freq_base_swa");
    if (sliding) {
      layer.rope.rope_theta = own.value_or(architecture_->sliding_theta);
      add(layer, "rope_theta", fmt::format("{}", layer.rope.rope_theta),
          own ? key("rope.freq_base_swa") : fmt::format("llama.cpp's default of {}", architecture_->name));
      return;
    }
    layer.rope.rope_theta = base.value_or(10000);
    add(layer, "rope_theta", fmt::format("{}", layer.rope.rope_theta),
        base ? key("rope.freq_base") : "llama.cpp's default");
  }

  // llama.cpp: a factor without a type means linear; rope.scale_linear is the older name of the factor.
  void read_scaling(LayerPositions& layer) {
    RopeScaling& rope = layer.rope;
    const auto given_type = file_->text(key("rope.scaling.type"));
    std::string factor_key = key("rope.scaling.factor");
    std::optional<double> factor = file_->number(factor_key);
    if (!factor) factor = file_->number(factor_key = key("rope.scale_linear"));
    if (factor && !(*factor >= 0 && std::isfinite(*factor)))
      fail(fmt::format("{} must be 0 or more but is {}", factor_key, *factor));
    if (factor == 0.0) factor.reset();
    const std::string_view type = given_type.value_or(factor ? "linear" : "none");
    const std::string type_source = given_type ? key("rope.scaling.type") : factor ? factor_key : "none is named";
    const std::int64_t pairs = rope.rotary_dim / 2;
    const auto all = pair_factors("rope_freqs.weight", pairs);
    const auto lows = pair_factors("rope_factors_short.weight", pairs);
    const auto highs = pair_factors("rope_factors_long.weight", pairs);
    if (lows.empty() != highs.empty()) fail("has only one of rope_factors_short.weight and rope_factors_long.weight");
    const double attention =
        positive("rope.scaling.attn_factor").value_or(1) * positive("rope.scaling.yarn_attn_factor").value_or(1);
    if (type != "none" && type != "linear" && type != "yarn" && type != "longrope") {
      fail(fmt::format("{} is {}; none, linear, yarn and longrope are known", key("rope.scaling.type"),
                       printable(type)));
    }
    if (out_.trained_length) rope.original_max_position_embeddings = static_cast<double>(*out_.trained_length);

    if (!lows.empty() || !all.empty()) {
      if (type == "yarn") fail("has frequency factors and YaRN together, which is not supported");
      rope.rope_type = RopeType::longrope;
      rope.short_factor = lows.empty() ? all : lows;
      rope.long_factor = lows.empty() ? all : highs;
      if (type == "linear" && factor) {
        for (auto* list : {&rope.short_factor, &rope.long_factor}) {
          for (double& v : *list) v *= *factor;
        }
      }
      rope.factor = longrope_factor(rope, factor);
      rope.attention_factor = attention;
      add(layer, "rope_type", "longrope",
          lows.empty() ? "rope_freqs.weight divides each frequency"
                       : "rope_factors_short.weight, rope_factors_long.weight");
    } else if (type == "yarn" && factor) {
      rope.rope_type = RopeType::yarn;
      rope.factor = factor;
      rope.beta_fast = positive("rope.scaling.yarn_beta_fast").value_or(rope.beta_fast);
      rope.beta_slow = positive("rope.scaling.yarn_beta_slow").value_or(rope.beta_slow);
      // ggml multiplies what YaRN computes; Hugging Face's value replaces it.
      rope.attention_factor = attention * yarn_mscale(*factor);
      add(layer, "rope_type", "yarn", type_source);
      for (const char* end : {"rope.scaling.yarn_log_multiplier", "rope.scaling.yarn_ext_factor"}) {
        if (file_->find_value(key(end))) out_.warnings.push_back(fmt::format("{} is not followed.", key(end)));
      }
    } else if (factor && *factor != 1 && type != "none") {
      rope.rope_type = RopeType::linear;
      rope.factor = factor;
      add(layer, "rope_type", "linear", type_source);
    } else {
      add(layer, "rope_type", "default", type_source);
    }
    if (type != "none" && type != "linear" && !factor && rope.rope_type == RopeType::default_) {
      out_.warnings.push_back(fmt::format("{} is {} but there is no factor, so nothing is scaled.",
                                          key("rope.scaling.type"), printable(type)));
    }
    if (rope.rope_type == RopeType::default_) rope.original_max_position_embeddings.reset();
    if (rope.factor && factor) add(layer, "factor", fmt::format("{}", *rope.factor), factor_key);
    if (rope.rope_type == RopeType::yarn || rope.rope_type == RopeType::longrope) {
      add(layer, "attention_factor", fmt::format("{}", *rope.attention_factor),
          rope.rope_type == RopeType::yarn ? "derived: rope.scaling.attn_factor * (0.1 ln factor + 1)"
                                           : "rope.scaling.attn_factor, else 1");
    }
  }

  static double longrope_factor(const RopeScaling& rope, std::optional<double> factor) {
    if (factor) return *factor;
    if (rope.max_position_embeddings && rope.original_max_position_embeddings) {
      return *rope.max_position_embeddings / *rope.original_max_position_embeddings;
    }
    return 1;
  }

  void check_tensors() const {
    const std::int64_t width = out_.layers.front().rope.head_dim;
    const std::int64_t heads = required(out_.n_heads, "attention.head_count"), kv_heads = *out_.n_kv_heads;
    if (heads % kv_heads != 0) fail(fmt::format("{} kv heads do not divide {} heads", kv_heads, heads));
    for (const GgufTensor& tensor : file_->tensors()) {
      if (!tensor.name.starts_with("blk.") || tensor.shape.empty()) continue;
      const std::string_view end = std::string_view(tensor.name).substr(tensor.name.find('.', 4) + 1);
      std::int64_t wanted = 0;
      if (end == "attn_q.weight") wanted = heads;
      if (end == "attn_k.weight") wanted = kv_heads;
      if (wanted == 0) continue;
      if (tensor.shape.size() != 2 || tensor.shape[0] != wanted * width) {
        fail(fmt::format("tensor {} has {} rows but {} heads of {} channels need {}", printable(tensor.name),
                         tensor.shape[0], wanted, width, wanted * width));
      }
    }
  }

  const GgufFile* file_;
  const Architecture* architecture_ = nullptr;
  ModelConfig out_;
};

}  // namespace

ModelConfig gguf_config(const GgufFile& file) { return Reader(file).read(); }

std::vector<std::string> config_differences(const ModelConfig& file, const ModelConfig& config) {
  std::vector<std::string> out;
  const auto compare = [&](std::string_view what, const auto& ours, const auto& theirs) {
    if (ours && theirs && *ours != *theirs) {
      out.push_back(fmt::format("{} is {} in the file but {} in {}.", what, *ours, *theirs, config.name));
    }
  };
  compare("n_heads", file.n_heads, config.n_heads);
  compare("n_kv_heads", file.n_kv_heads, config.n_kv_heads);
  compare("n_layers", file.n_layers, config.n_layers);
  compare("hidden_size", file.hidden_size, config.hidden_size);
  compare("max_position_embeddings", file.max_position_embeddings, config.max_position_embeddings);
  const LayerPositions &ours = file.layers.front(), &theirs = config.layers.front();
  if (ours.encoding != theirs.encoding) {
    out.push_back(fmt::format("The encoding is {} in the file but {} in {}.", to_word(ours.encoding),
                              to_word(theirs.encoding), config.name));
  } else if (ours.encoding == ModelEncoding::rope) {
    const auto number = [](double v) { return std::optional(v); };
    compare("head_dim", std::optional(ours.rope.head_dim), std::optional(theirs.rope.head_dim));
    compare("rotary_dim", std::optional(ours.rope.rotary_dim), std::optional(theirs.rope.rotary_dim));
    // GGUF keeps single precision.
    compare("rope_theta", number(static_cast<float>(ours.rope.rope_theta)),
            number(static_cast<float>(theirs.rope.rope_theta)));
    compare("factor", ours.rope.factor, theirs.rope.factor);
  }
  return out;
}

}  // namespace poslab
