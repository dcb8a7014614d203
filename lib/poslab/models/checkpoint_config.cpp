#include "poslab/models/checkpoint_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <variant>

#include "poslab/formats/json_file.h"
#include "poslab/model_configs/hf_config.h"
#include "poslab/model_configs/rope_keys.h"
#include "poslab/models/families/runnable_family.h"

namespace poslab {
namespace {

using nlohmann::json;
using ordered = nlohmann::ordered_json;

// A scaling that is a fixed base is saved as plain frequencies of that base.
bool is_fixed_base(const RopeScaling& rope) {
  return rope.rope_type->theta && rope.rope_type->follows_length == FollowsLength::no;
}

// rope_scaling as transformers reads it, null for plain frequencies.
ordered scaling_json(const RopeScaling& rope) {
  const RopeType type = rope.rope_type;
  if (const std::string_view what = type->config.unnamed ? type->config.unnamed(rope) : ""; !what.empty()) {
    throw std::invalid_argument(
        fmt::format("[checkpoint] config.json has no name for {}; use another rope_type to save a model.", what));
  }
  if (!type.is_scaled() || is_fixed_base(rope)) return nullptr;
  return rope_keys(rope, RopeKeys::all);
}

// The encoding's parameters that differ from their defaults.
void write_method_params(const Method& method, const MethodParams& params, ordered& out) {
  MethodParams::fields(params, [&]<class F>(std::string_view name, const F& value, auto...) {
    if (method_with_parameter(name) != &method) return;
    const Value erased = detail::FieldType<F>::erase(value);
    for (const FieldSpec& spec : method.parameters()) {
      if (spec.name != name || spec.fallback == erased) continue;
      std::visit(
          [&](const auto& plain) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(plain)>, std::monostate>) out[spec.name] = plain;
          },
          erased);
    }
  });
}

double saved_theta(const RopeScaling& rope) {
  return is_fixed_base(rope) ? rope.rope_type->theta(rope, std::nullopt) : rope.rope_theta;
}

// Its model_type is the word.
const Family& written_family(ModelFamily family) { return *find_family(to_word(family)); }

ordered gpt2_json(const TransformerConfig& c) {
  return {{"architectures", {written_family(ModelFamily::gpt2).class_name}},
          {"model_type", to_word(ModelFamily::gpt2)},
          {"vocab_size", c.vocab_size},
          {"n_positions", c.max_position_embeddings},
          {"n_embd", c.d_model},
          {"n_layer", c.n_layers},
          {"n_head", c.n_heads},
          {"n_inner", c.d_ff},
          {"activation_function", c.mlp == MlpKind::gelu ? "gelu" : "gelu_new"},
          {"layer_norm_epsilon", c.norm_eps},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr},
          {"tie_word_embeddings", c.tied_head}};
}

ordered llama_json(const TransformerConfig& c, ModelFamily family) {
  const bool own = family == ModelFamily::poslab;
  ordered out = {{"architectures", {written_family(family).class_name}},
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
    out["biases"] = c.mlp_bias;
    if (c.qkv_bias != c.mlp_bias) out["qkv_bias"] = c.qkv_bias;
    if (c.o_bias != c.mlp_bias) out["o_bias"] = c.o_bias;
    out["attention_window"] = c.attention_window;
    write_method_params(*c.encoding, c.method, out);
    if (c.encoding->acts_on(Place::rotation)) out["rotary_dim"] = c.rope.rotary_dim;
  } else {
    out["hidden_act"] = "silu";
    out["rms_norm_eps"] = c.norm_eps;
    out["attention_bias"] = c.qkv_bias;
    out["mlp_bias"] = c.mlp_bias;
  }
  // A Llama model without the key has RoPE.
  if (own || !c.encoding->is_plain_rotation()) out["position_embedding_type"] = c.encoding->config_word();
  if (c.encoding->acts_on(Place::rotation)) {
    if (c.layout == RopeLayout::interleaved) out["rope_interleave"] = true;
    out["rope_theta"] = saved_theta(c.rope);
    out["rope_scaling"] = scaling_json(c.rope);
  }
  return out;
}

}  // namespace

ModelFamily model_family(const TransformerConfig& c) {
  const bool whole = c.attention_window == 0;
  if (whole && c.encoding->learns_input() && c.norm == NormKind::layer_norm && !is_gated(c.mlp) && c.qkv_bias &&
      c.o_bias && c.mlp_bias && c.n_kv_heads == c.n_heads && c.attention_width() == c.d_model) {
    return ModelFamily::gpt2;
  }
  const bool stock = c.encoding->fits_llama_config(c.method) &&
                     (!c.encoding->acts_on(Place::rotation) || c.rope.rotary_dim == c.head_dim);
  return whole && stock && c.qkv_bias == c.o_bias && c.norm == NormKind::rms_norm && c.mlp == MlpKind::swiglu
             ? ModelFamily::llama
             : ModelFamily::poslab;
}

const TensorNaming& saved_names(const TransformerConfig& config) {
  return written_family(model_family(config)).run->names;
}

std::string config_json(const TransformerConfig& config, const CheckpointNotes& notes, const std::string& torch_dtype) {
  if (const std::string what = untrainable(config); !what.empty()) {
    throw std::invalid_argument(fmt::format("[checkpoint] a model with {} runs but is not saved.", what));
  }
  const ModelFamily family = model_family(config);
  ordered out = family == ModelFamily::gpt2 ? gpt2_json(config) : llama_json(config, family);
  out["torch_dtype"] = torch_dtype;
  if (!notes.empty()) out["poslab"] = notes;
  return out.dump(2) + "\n";
}

ReadConfig read_config(const std::string& path) {
  const json config = read_json_file(path);
  if (!config.is_object()) throw std::invalid_argument(fmt::format("[checkpoint] {}: is no JSON object.", path));
  const ConfigKeys keys(config, path);
  const TextPart part = text_part(config);
  json text = *part.config;
  // The whole model ties its head, whichever part says so.
  if (const json* tied = keys.find("tie_word_embeddings")) text.emplace("tie_word_embeddings", *tied);
  const std::string text_path =
      part.prefix.empty() ? path : path + ": " + part.prefix.substr(0, part.prefix.size() - 1);
  FamilyModel model = read_family(ConfigKeys(text, text_path));
  ReadConfig read{std::move(model.config), model.naming, {}, !part.prefix.empty()};
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
