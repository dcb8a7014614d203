#include "poslab/model_configs/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "poslab/core/printable.h"
#include "poslab/model_configs/gguf_architectures.h"

namespace poslab {
namespace {

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
    const bool switched_off =
        architecture_->finetuned_switches_off && !file_->boolean(key("rope.scaling.finetuned")).value_or(true);
    if (architecture_->encoding != ModelEncoding::rope || switched_off) {
      read_other(switched_off ? ModelEncoding::none : architecture_->encoding,
                 switched_off ? key("rope.scaling.finetuned") : architecture_source());
      return std::move(out_);
    }
    read_window();
    if (!window_ || !architecture_->two_sets()) {
      out_.layers.push_back(rope(""));
    } else if (architecture_->full_layers_turn) {
      out_.layers.push_back(rope("full_attention"));
      out_.layers.push_back(rope("sliding_attention"));
    } else {
      out_.layers.push_back(rope("sliding_attention"));
      LayerPositions without;
      without.layer_type = "full_attention";
      without.encoding = ModelEncoding::none;
      add(without, "encoding", "none", architecture_source());
      out_.layers.push_back(std::move(without));
    }
    check_tensors();
    return std::move(out_);
  }

  SlidingWindow sliding_window() {
    find_architecture();
    read_window();
    if (!window_) return {};
    std::vector<bool> out = listed_layers();
    if (out.empty()) {
      const std::int64_t period = sliding_period();
      for (std::int64_t layer = 0; layer < required(size("block_count"), "block_count"); ++layer) {
        out.push_back(period == 0 || (layer + 1) % period != 0);
      }
    }
    if (std::count(out.begin(), out.end(), true) == 0) return {};
    return {std::move(out), *window_};
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(fmt::format("[gguf_config] {}: {}.", out_.name, what));
  }

  std::string key(std::string_view end) const { return fmt::format("{}.{}", architecture_->name, end); }

  std::string architecture_source() const { return fmt::format("general.architecture {}", architecture_->name); }

  void find_architecture() {
    const auto name = file_->text("general.architecture");
    if (!name) fail("has no general.architecture");
    architecture_ = find_gguf_architecture(*name);
    if (!architecture_) {
      fail(fmt::format("the architecture {} is not known; {} are", printable(*name), known_gguf_architectures()));
    }
    out_.model_type = *name;
  }

  std::optional<std::int64_t> size(std::string_view end) const {
    const auto* value = file_->find_value(key(end));
    if (value && value->type == GgufType::array) return uniform(end);
    const auto v = file_->integer(key(end));
    if (v && *v < 1) fail(fmt::format("{} must be above 0 but is {}", key(end), *v));
    if (v && *v > most_size) fail(fmt::format("{} is {}, too large", key(end), *v));
    return v;
  }

  // A value for each layer, all the same.
  std::optional<std::int64_t> uniform(std::string_view end) const {
    const auto values = file_->numbers(key(end));
    if (values.empty() || std::any_of(values.begin(), values.end(), [&](double v) { return v != values.front(); })) {
      fail(fmt::format("{} differs from layer to layer, which is not supported", key(end)));
    }
    if (!(values.front() >= 1 && values.front() <= most_size))
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

  void read_other(ModelEncoding encoding, std::string source) {
    LayerPositions layer;
    layer.encoding = encoding;
    add(layer, "encoding", std::string(to_word(layer.encoding)), std::move(source));
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
    add(layer, "encoding", "rope", architecture_source());
    add(layer, "layout", std::string(to_word(layer.layout)),
        architecture_source() + (layer.layout == RopeLayout::interleaved ? ": q and k are stored so" : ""));

    std::string source = key("attention.key_length");
    if (architecture_->latent) {
      rope.head_dim = required(size("rope.dimension_count"), "rope.dimension_count");
      source = "the part of a head that turns: " + key("rope.dimension_count");
    } else if (const auto width = size("attention.key_length")) {
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
    if (sliding && !architecture_->sliding.scaled) {
      add(layer, "rope_type", "default", "sliding layers are not scaled");
    } else {
      read_scaling(layer);
    }
    if (window_ && layer_type != "full_attention") add_window(layer);
    if (const std::int64_t period = architecture_->nope_period; period > 0 && (window_ || !switched_to_full())) {
      add(layer, "layers_without_rope", fmt::format("every {}th", period), "llama.cpp's rule for " + out_.model_type);
    }
    add_sizes(layer);
    return layer;
  }

  std::optional<std::int64_t> window_key() const {
    const auto v = file_->integer(key("attention.sliding_window"));
    if (v && *v < 0) fail(fmt::format("{} must be 0 or more but is {}", key("attention.sliding_window"), *v));
    return v;
  }

  // Llama 4's files say with a window of 0 that all layers see everything and turn.
  bool switched_to_full() const { return architecture_->sliding.chunked && window_key() == 0; }

  void read_window() {
    const SlidingLayers& sliding = architecture_->sliding;
    if (sliding.period == 0) return;
    const auto given = window_key();
    if (given == 0) return;
    if (sliding.chunked) {
      window_ = sliding.window;
    } else if (given) {
      window_ = given;
    } else if (sliding.window > 0) {
      window_ = sliding.window;
    } else if (!sliding.optional) {
      fail(fmt::format("has no {}", key("attention.sliding_window")));
    }
  }

  void add_window(LayerPositions& layer) const {
    const SlidingLayers& sliding = architecture_->sliding;
    const std::string own_rule = "llama.cpp's rule for " + out_.model_type;
    add(layer, sliding.chunked ? "attention_chunk_size" : "sliding_window", std::to_string(*window_),
        !sliding.chunked && window_key() ? key("attention.sliding_window") : own_rule);
    if (const std::vector<bool> listed = listed_layers(); !listed.empty()) {
      const auto count = std::count(listed.begin(), listed.end(), true);
      add(layer, "sliding_layers", fmt::format("{} of {}", count, listed.size()), pattern_key());
      return;
    }
    const std::int64_t period = sliding_period();
    add(layer, "sliding_layers", period == 0 ? "all" : fmt::format("{} of {}", period - 1, period),
        file_->find_value(pattern_key()) ? pattern_key() : own_rule);
  }

  std::string pattern_key() const { return key("attention.sliding_window_pattern"); }

  // Whether each layer slides, where the pattern is a list of them.
  std::vector<bool> listed_layers() const {
    const GgufValue* value = file_->find_value(pattern_key());
    if (!value || value->type != GgufType::array) return {};
    const auto& array = std::get<GgufArray>(value->value);
    const std::int64_t layers = required(size("block_count"), "block_count");
    if (array.size != layers) fail(fmt::format("{} lists {} layers of {}", pattern_key(), array.size, layers));
    std::vector<bool> out;
    if (array.element == GgufType::boolean) {
      for (std::byte b : array.bytes) out.push_back(b != std::byte{0});
    } else {
      for (double v : file_->numbers(pattern_key())) out.push_back(v != 0);
    }
    return out;
  }

  // The last of every so many layers sees everything; 0: none does.
  std::int64_t sliding_period() const {
    const std::int64_t period = file_->integer(pattern_key()).value_or(architecture_->sliding.period);
    if (period < 0) fail(fmt::format("{} must be 0 or more but is {}", pattern_key(), period));
    return period;
  }

  void read_theta(LayerPositions& layer, bool sliding) const {
    const auto base = positive("rope.freq_base"), own = positive("rope.freq_base_swa");
    if (sliding) {
      const double fallback = architecture_->sliding.rope_theta;
      layer.rope.rope_theta = own.value_or(fallback > 0 ? fallback : base.value_or(10000));
      add(layer, "rope_theta", fmt::format("{}", layer.rope.rope_theta),
          own            ? key("rope.freq_base_swa")
          : fallback > 0 ? fmt::format("llama.cpp's default of {}", architecture_->name)
                         : "as in full layers");
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
    const double attention = positive("rope.scaling.attn_factor").value_or(1);
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
      read_yarn_attention(layer, attention);
      add(layer, "rope_type", "yarn", type_source);
      read_beta(layer, "beta_fast", rope.beta_fast);
      read_beta(layer, "beta_slow", rope.beta_slow);
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
    if (rope.rope_type == RopeType::longrope) {
      add(layer, "attention_factor", fmt::format("{}", *rope.attention_factor), "rope.scaling.attn_factor, else 1");
    } else if (rope.rope_type != RopeType::yarn && attention != 1) {
      out_.warnings.push_back(fmt::format("{} {} is not followed: rope_type {} has no attention factor.",
                                          key("rope.scaling.attn_factor"), attention, to_word(rope.rope_type)));
    }
  }

  // llama.cpp's converter copies the betas from config.json for every architecture; few of them read them again.
  void read_beta(LayerPositions& layer, std::string_view name, double& beta) {
    const std::string from = key(fmt::format("rope.scaling.yarn_{}", name));
    const double given = positive(fmt::format("rope.scaling.yarn_{}", name)).value_or(beta);
    if (given != beta && architecture_->name != "mistral3") {
      out_.warnings.push_back(
          fmt::format("{} {} is followed, as the model's config means it; llama.cpp takes {}.", from, given, beta));
    }
    add(layer, std::string(name), fmt::format("{}", given), file_->find_value(from) ? from : "rope_type default");
    beta = given;
  }

  // attn_factor multiplies what YaRN computes; yarn_attn_factor, which the converter copies from Hugging Face's
  // attention_factor, replaces it. yarn_log_multiplier is mscale_all_dim, in DeepSeek's files a tenth of it.
  void read_yarn_attention(LayerPositions& layer, double attention) {
    const double factor = *layer.rope.factor;
    const std::string log_key = key("rope.scaling.yarn_log_multiplier"), own_key = key("rope.scaling.yarn_attn_factor");
    const bool followed = architecture_->latent || architecture_->name == "mistral3";
    double all_dim = followed ? file_->number(log_key).value_or(0) : 0;
    if (!std::isfinite(all_dim)) fail(fmt::format("{} must be finite but is {}", log_key, all_dim));
    if (architecture_->latent) all_dim = static_cast<float>(all_dim / 0.1);
    double ratio = yarn_mscale(factor);
    if (all_dim != 0) ratio = architecture_->latent ? 1 : ratio / yarn_mscale(factor, all_dim);
    const auto own = positive("rope.scaling.yarn_attn_factor");
    if (own && std::abs(*own - ratio) > 1e-6 * ratio) {
      out_.warnings.push_back(fmt::format(
          "{} {} is followed, as the model's config means it; llama.cpp takes YaRN's own, {}.", own_key, *own, ratio));
    }
    layer.rope.attention_factor = attention * own.value_or(ratio);
    add(layer, "attention_factor", fmt::format("{}", *layer.rope.attention_factor),
        own ? own_key : "derived: rope.scaling.attn_factor and YaRN's own, 0.1 ln factor + 1");
    if (architecture_->latent) {
      const double mscale = attention * ratio * (1 + 0.1 * all_dim * std::log(factor));
      layer.softmax_multiplier = mscale * mscale;
      add(layer, "softmax_multiplier", fmt::format("{}", layer.softmax_multiplier),
          fmt::format("derived: (attention_factor * (1 + {} ln factor))^2", 0.1 * all_dim));
    }
    for (const std::string& unread : {followed ? "" : log_key, key("rope.scaling.yarn_ext_factor")}) {
      if (file_->find_value(unread)) out_.warnings.push_back(fmt::format("{} is not followed.", unread));
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
    if (architecture_->latent) return;  // its q and k are products of smaller tensors
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
  const GgufArchitecture* architecture_ = nullptr;
  std::optional<std::int64_t> window_;  // of the layers that slide; absent: none do
  ModelConfig out_;
};

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

ModelConfig gguf_config(const GgufFile& file) { return Reader(file).read(); }

SlidingWindow gguf_sliding_window(const GgufFile& file) { return Reader(file).sliding_window(); }

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
