#include "poslab/models/checkpoint_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "poslab/formats/hf_config.h"
#include "poslab/formats/json_file.h"

namespace poslab {
namespace {

using nlohmann::json;
using ordered = nlohmann::ordered_json;

// rope_scaling as transformers reads it, null for plain frequencies; ntk is a plain set of another base.
ordered scaling_json(const RopeScaling& rope) {
  const auto unnamed = [](const char* what) {
    throw std::invalid_argument(
        fmt::format("[checkpoint] config.json has no name for {}; use another rope_type to save a model.", what));
  };
  if (rope.rope_type == RopeType::ntk_by_parts) unnamed("ntk_by_parts");
  if (rope.rope_type == RopeType::yarn && rope.yarn_ramp == YarnRamp::paper) unnamed("yarn with the paper's ramp");
  if (rope.rope_type == RopeType::default_ || rope.rope_type == RopeType::ntk) return nullptr;
  ordered out = {{"rope_type", to_word(rope.rope_type)}};
  const auto put = [&](const char* key, const std::optional<double>& value) {
    if (value) out[key] = *value;
  };
  put("factor", rope.factor);
  if (rope.original_max_position_embeddings) {
    out["original_max_position_embeddings"] = static_cast<std::int64_t>(*rope.original_max_position_embeddings);
  }
  put("attention_factor", rope.attention_factor);
  if (rope.rope_type == RopeType::yarn) {
    out["beta_fast"] = rope.beta_fast;
    out["beta_slow"] = rope.beta_slow;
    put("mscale", rope.mscale);
    put("mscale_all_dim", rope.mscale_all_dim);
    if (!rope.truncate) out["truncate"] = false;
  }
  if (rope.rope_type == RopeType::llama3) {
    out["low_freq_factor"] = rope.low_freq_factor;
    out["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.rope_type == RopeType::longrope) {
    out["short_factor"] = rope.short_factor;
    out["long_factor"] = rope.long_factor;
  }
  return out;
}

double saved_theta(const RopeScaling& rope) {
  return rope.rope_type == RopeType::ntk ? ntk_theta(rope.rope_theta, effective_factor(rope), rope.rotary_dim)
                                         : rope.rope_theta;
}

ordered gpt2_json(const TransformerConfig& c) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", c.vocab_size},
          {"n_positions", c.max_position_embeddings},
          {"n_embd", c.d_model},
          {"n_layer", c.n_layers},
          {"n_head", c.n_heads},
          {"n_inner", c.d_ff},
          {"activation_function", "gelu"},
          {"layer_norm_epsilon", c.norm_eps},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr},
          {"tie_word_embeddings", c.tied_head}};
}

ordered llama_json(const TransformerConfig& c, ModelFamily family) {
  const bool own = family == ModelFamily::poslab;
  ordered out = {{"architectures", {own ? "PoslabForCausalLM" : "LlamaForCausalLM"}},
                 {"model_type", to_word(family)},
                 {"vocab_size", c.vocab_size},
                 {"hidden_size", c.d_model},
                 {"num_hidden_layers", c.n_layers},
                 {"num_attention_heads", c.n_heads},
                 {"num_key_value_heads", c.n_kv_heads},
                 {"head_dim", c.head_dim},
                 {"intermediate_size", c.d_ff},
                 {"max_position_embeddings", c.max_position_embeddings},
                 {"tie_word_embeddings", c.tied_head},
                 {"bos_token_id", nullptr},
                 {"eos_token_id", nullptr}};
  if (own) {
    out["norm"] = to_word(c.norm);
    out["norm_eps"] = c.norm_eps;
    out["mlp"] = to_word(c.mlp);
    out["biases"] = c.biases;
    out["attention_window"] = c.attention_window;
    if (c.encoding == PositionEncoding::fire) out["fire_length"] = c.fire_length;
    if (turns_pairs(c.encoding)) out["rotary_dim"] = c.rope.rotary_dim;
  } else {
    out["hidden_act"] = "silu";
    out["rms_norm_eps"] = c.norm_eps;
    out["attention_bias"] = c.biases;
    out["mlp_bias"] = c.biases;
  }
  // Hugging Face's word for no encoding is "nope"; a Llama model without the key has RoPE.
  if (own || c.encoding != PositionEncoding::rope) {
    out["position_embedding_type"] = c.encoding == PositionEncoding::none ? "nope" : to_word(c.encoding);
  }
  if (turns_pairs(c.encoding)) {
    if (c.layout == RopeLayout::interleaved) out["rope_interleave"] = true;
    out["rope_theta"] = saved_theta(c.rope);
    out["rope_scaling"] = scaling_json(c.rope);
  }
  return out;
}

// Typed access to a config's keys.
class Keys {
 public:
  Keys(const json& config, const std::string& path) : config_(config), path_(path) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(fmt::format("[checkpoint] {}: {}.", path_, what));
  }
  const json* find(const char* key) const {
    const auto found = config_.find(key);
    return found == config_.end() || found->is_null() ? nullptr : &*found;
  }
  std::int64_t integer(const char* key, std::optional<std::int64_t> fallback = std::nullopt) const {
    return get<std::int64_t>(key, fallback, &json::is_number_integer, "an integer");
  }
  double real(const char* key, std::optional<double> fallback = std::nullopt) const {
    return get<double>(key, fallback, &json::is_number, "a number");
  }
  bool boolean(const char* key, std::optional<bool> fallback = std::nullopt) const {
    return get<bool>(key, fallback, &json::is_boolean, "true or false");
  }
  std::string text(const char* key, std::optional<std::string> fallback = std::nullopt) const {
    return get<std::string>(key, fallback, &json::is_string, "text");
  }
  template <Word E>
  E word(const char* key) const {
    const std::string given = text(key);
    for (const auto& [value, word] : words(E{})) {
      if (word == given) return value;
    }
    fail(fmt::format("{} '{}' is not known", key, given));
  }

 private:
  template <class V>
  V get(const char* key, const std::optional<V>& fallback, bool (json::*is)() const noexcept, const char* kind) const {
    const json* value = find(key);
    if (!value && fallback) return *fallback;
    if (!value) fail(fmt::format("{} is missing", key));
    if (!(value->*is)()) fail(fmt::format("{} must be {}", key, kind));
    return value->get<V>();
  }

  const json& config_;
  const std::string& path_;
};

TransformerConfig read_gpt2(const Keys& keys) {
  TransformerConfig c;
  c.vocab_size = keys.integer("vocab_size");
  c.max_position_embeddings = keys.integer("n_positions");
  c.d_model = keys.integer("n_embd");
  c.n_layers = keys.integer("n_layer");
  c.n_heads = c.n_kv_heads = keys.integer("n_head");
  if (c.n_heads < 1 || c.d_model % c.n_heads != 0) {
    keys.fail(fmt::format("n_embd {} does not divide among n_head {}", c.d_model, c.n_heads));
  }
  c.head_dim = c.d_model / c.n_heads;
  c.d_ff = keys.integer("n_inner", 4 * c.d_model);
  c.norm_eps = keys.real("layer_norm_epsilon", 1e-5);
  c.tied_head = keys.boolean("tie_word_embeddings", true);
  c.encoding = PositionEncoding::learned;
  if (const std::string activation = keys.text("activation_function", "gelu_new"); activation != "gelu") {
    keys.fail(fmt::format("activation_function '{}' is not poslab's, the exact gelu", activation));
  }
  return c;
}

TransformerConfig read_llama(const Keys& keys, const json& config, const std::string& path, bool own) {
  TransformerConfig c;
  c.vocab_size = keys.integer("vocab_size");
  c.d_model = keys.integer("hidden_size");
  c.n_layers = keys.integer("num_hidden_layers");
  c.n_heads = keys.integer("num_attention_heads");
  c.n_kv_heads = keys.integer("num_key_value_heads", c.n_heads);
  c.head_dim = keys.integer("head_dim", c.n_heads > 0 ? c.d_model / c.n_heads : 0);
  c.d_ff = keys.integer("intermediate_size");
  c.max_position_embeddings = keys.integer("max_position_embeddings");
  c.tied_head = keys.boolean("tie_word_embeddings", false);
  if (own) {
    c.norm = keys.word<NormKind>("norm");
    c.norm_eps = keys.real("norm_eps");
    c.mlp = keys.word<MlpKind>("mlp");
    c.biases = keys.boolean("biases");
    c.attention_window = keys.integer("attention_window", 0);
    c.fire_length = keys.real("fire_length", c.fire_length);
  } else {
    c.norm = NormKind::rms_norm;
    c.norm_eps = keys.real("rms_norm_eps", 1e-6);
    c.mlp = MlpKind::swiglu;
    c.biases = keys.boolean("attention_bias", false);
    if (c.biases != keys.boolean("mlp_bias", false)) keys.fail("attention_bias and mlp_bias differ");
    if (const std::string activation = keys.text("hidden_act", "silu"); activation != "silu") {
      keys.fail(fmt::format("hidden_act '{}' is not silu", activation));
    }
  }
  const std::string encoding = keys.text("position_embedding_type", "rope");
  c.encoding = encoding == "nope" || encoding == "none" ? PositionEncoding::none
               : keys.find("position_embedding_type")   ? keys.word<PositionEncoding>("position_embedding_type")
                                                        : PositionEncoding::rope;
  if (!turns_pairs(c.encoding)) return c;
  // The frequencies as every other reader of a Llama config has them.
  json rotary = config;
  rotary["model_type"] = "llama";
  rotary.erase("position_embedding_type");
  const ModelConfig read = model_config(rotary, path);
  c.rope = read.layers.front().rope;
  c.layout = read.layers.front().layout;
  if (own) c.rope.rotary_dim = keys.integer("rotary_dim", c.head_dim);
  return c;
}

}  // namespace

ModelFamily model_family(const TransformerConfig& c) {
  const bool whole = c.attention_window == 0;
  if (whole && c.encoding == PositionEncoding::learned && c.norm == NormKind::layer_norm && c.mlp == MlpKind::gelu &&
      c.biases && c.n_kv_heads == c.n_heads && c.attention_width() == c.d_model) {
    return ModelFamily::gpt2;
  }
  const bool stock = c.encoding == PositionEncoding::alibi || c.encoding == PositionEncoding::none ||
                     (c.encoding == PositionEncoding::rope && c.rope.rotary_dim == c.head_dim);
  return whole && stock && c.norm == NormKind::rms_norm && c.mlp == MlpKind::swiglu ? ModelFamily::llama
                                                                                    : ModelFamily::poslab;
}

std::vector<StoredTensor> stored_tensors(const TransformerConfig& config) {
  const ParameterLayout layout(config);
  std::vector<StoredTensor> out;
  if (model_family(config) != ModelFamily::gpt2) {
    for (const ParameterSpec& spec : layout.specs()) out.push_back({spec.name, spec.shape, spec.offset, spec.size});
    return out;
  }
  const std::int64_t d = config.d_model;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, std::int64_t offset, bool transposed) {
    std::int64_t size = 1;
    for (std::int64_t length : shape) size *= length;
    out.push_back({name, std::move(shape), offset, size, transposed});
  };
  add("transformer.wte.weight", {config.vocab_size, d}, layout.embed, false);
  add("transformer.wpe.weight", {config.max_position_embeddings, d}, layout.positions, false);
  const LayerOffsets& at = layout.in_layer();
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    const std::string prefix = fmt::format("transformer.h.{}.", layer);
    const std::int64_t begin = layout.layer_begin(layer);
    const auto norm = [&](const char* name, std::int64_t weight, std::int64_t bias) {
      add(prefix + name + ".weight", {d}, begin + weight, false);
      add(prefix + name + ".bias", {d}, begin + bias, false);
    };
    // Conv1D keeps its weight as [in, out].
    const auto linear = [&](const char* name, std::int64_t in, std::int64_t width, std::int64_t weight,
                            std::int64_t bias) {
      add(prefix + name + ".weight", {in, width}, begin + weight, true);
      add(prefix + name + ".bias", {width}, begin + bias, false);
    };
    norm("ln_1", at.norm1_weight, at.norm1_bias);
    linear("attn.c_attn", d, 3 * d, at.qkv_weight, at.qkv_bias);
    linear("attn.c_proj", d, d, at.o_weight, at.o_bias);
    norm("ln_2", at.norm2_weight, at.norm2_bias);
    linear("mlp.c_fc", d, config.d_ff, at.up_weight, at.up_bias);
    linear("mlp.c_proj", config.d_ff, d, at.down_weight, at.down_bias);
  }
  add("transformer.ln_f.weight", {d}, layout.norm_weight, false);
  add("transformer.ln_f.bias", {d}, layout.norm_bias, false);
  if (!config.tied_head) add("lm_head.weight", {config.vocab_size, d}, layout.head, false);
  return out;
}

std::string config_json(const TransformerConfig& config, const CheckpointNotes& notes, const std::string& torch_dtype) {
  const ModelFamily family = model_family(config);
  ordered out = family == ModelFamily::gpt2 ? gpt2_json(config) : llama_json(config, family);
  out["torch_dtype"] = torch_dtype;
  if (!notes.empty()) out["poslab"] = notes;
  return out.dump(2) + "\n";
}

ReadConfig read_config(const std::string& path) {
  const json config = read_json_file(path);
  if (!config.is_object()) throw std::invalid_argument(fmt::format("[checkpoint] {}: is no JSON object.", path));
  const Keys keys(config, path);
  ReadConfig read;
  switch (keys.word<ModelFamily>("model_type")) {
    case ModelFamily::gpt2:
      read.config = read_gpt2(keys);
      break;
    case ModelFamily::llama:
      read.config = read_llama(keys, config, path, false);
      break;
    case ModelFamily::poslab:
      read.config = read_llama(keys, config, path, true);
      break;
  }
  check_config(read.config);
  if (const json* notes = keys.find("poslab")) {
    if (!notes->is_object()) keys.fail("poslab must be an object");
    for (const auto& [key, value] : notes->items()) {
      if (!value.is_string()) keys.fail(fmt::format("poslab.{} must be text", key));
      read.notes[key] = value.get<std::string>();
    }
  }
  return read;
}

}  // namespace poslab
