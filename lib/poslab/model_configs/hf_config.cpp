#include "poslab/model_configs/hf_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "poslab/model_configs/config_text.h"
#include "poslab/model_configs/hf_rope_sets.h"
namespace poslab {
namespace {

using nlohmann::json;

class ConfigReader {
 public:
  ConfigReader(const json& config, std::string_view name) : text_(config, name) { out_.name = name; }

  ModelConfig read(const json& whole) {
    read_comments(whole);
    out_.model_type = text_.model_type();
    out_.family = text_.known_family();
    read_sizes();
    read_encoding();
    finish();
    return std::move(out_);
  }

 private:
  void read_comments(const json& whole) {
    const auto source = whole.find("_source"), verified = whole.find("_verified");
    if (source == whole.end() || !source->is_string()) return;
    out_.source = source->get<std::string>();
    if (verified != whole.end() && verified->is_boolean() && !verified->get<bool>()) out_.source += " (not verified)";
  }

  void read_sizes() {
    sizes_.hidden = text_.size({"hidden_size", "n_embd", "d_model", "n_embed"}, hf_.hidden_size);
    sizes_.heads =
        text_.size({"num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"}, hf_.n_heads);
    sizes_.max_positions =
        text_.size({"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_target_positions"},
                   hf_.max_positions);
    if (sizes_.hidden) out_.hidden_size = sizes_.hidden->value;
    if (sizes_.heads) out_.n_heads = sizes_.heads->value;
    if (sizes_.max_positions) out_.max_position_embeddings = sizes_.max_positions->value;
    const auto layers = text_.size({"num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"}, 0);
    if (layers) out_.n_layers = layers->value;
    const auto kv_heads = text_.size({"num_key_value_heads", "num_kv_heads", "multi_query_group_num"}, hf_.n_kv_heads);
    if (kv_heads) out_.n_kv_heads = kv_heads->value;
    if (hf_.divisible && sizes_.hidden && sizes_.heads && sizes_.hidden->value % sizes_.heads->value != 0) {
      text_.fail("{} {} is not a multiple of {} {}", path("hidden_size"), sizes_.hidden->value,
                 path("num_attention_heads"), sizes_.heads->value);
    }
  }

  void read_encoding() {
    EncodingChoice choice{text_.family().encoding, out_.model_type.empty() ? "derived: read like Llama"
                                                                           : "model_type " + shown(out_.model_type)};
    if (const json* how = top("position_embedding_type"); how && how->is_string()) {
      const auto& word = how->get_ref<const std::string&>();
      const bool foreign = choice.encoding == ModelEncoding::rope && text_.known_family() && !hf_.names_encoding;
      if (foreign && word == "absolute") {
        text_.ignore(path("position_embedding_type"));  // left over from BERT's config, as in ModernBERT's
      } else if (const auto named = encoding_named(word); named && *named != choice.encoding) {
        choice = {*named, path("position_embedding_type")};
        if (foreign) {
          text_.warn("{} is no key of {}: transformers ignores it and runs RoPE.", choice.source,
                     text_.family().model_type);
        }
      }
    }
    if (hf_.choose_encoding) hf_.choose_encoding(text_, choice);
    source_of_encoding_ = choice.source;
    if (choice.encoding == ModelEncoding::rope) {
      read_rope();
    } else {
      read_other(choice.encoding);
    }
  }

  // The words of position_embedding_type in BERT's family, ESM, Jais, Granite, and ours.
  static std::optional<ModelEncoding> encoding_named(std::string_view word) {
    if (word == "rotary") return ModelEncoding::rope;
    if (word == "nope") return ModelEncoding::none;
    if (word == "relative_key" || word == "relative_key_query") return ModelEncoding::relative;
    if (word == "absolute") return ModelEncoding::learned;
    for (const std::string_view known : ModelEncoding::words()) {
      if (known == word) return ModelEncoding::from_word(word);
    }
    return std::nullopt;
  }

  void read_other(ModelEncoding encoding) {
    LayerPositions layer;
    layer.encoding = encoding;
    layer.add("encoding", std::string(to_word(encoding)), source_of_encoding_);
    if (encoding->learns_input()) read_table(layer);
    if (encoding->depends_on_heads()) {
      if (!sizes_.heads) text_.fail("{} is missing, and the bias depends on it", path("num_attention_heads"));
      layer.add("n_heads", std::to_string(sizes_.heads->value), sizes_.heads->source);
    }
    for (const auto& [name, key] : encoding->config_keys()) read_parameter(*encoding, name, key, layer);
    if (sizes_.max_positions) {
      if (encoding != ModelEncoding::none)
        out_.trained_length = out_.trained_length.value_or(sizes_.max_positions->value);
      layer.add("max_position_embeddings", std::to_string(sizes_.max_positions->value), sizes_.max_positions->source);
    }
    for (std::string_view key : {"rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor"}) {
      if (const json* v = top(key); v && !v->is_null()) {
        text_.ignore(path(key));
        text_.warn("{} has no effect: the encoding is {}.", path(key), to_word(encoding));
      }
    }
    out_.layers.push_back(std::move(layer));
  }

  void read_parameter(const Method& method, std::string_view name, std::string_view key, LayerPositions& layer) {
    for (const FieldSpec& spec : method.parameters()) {
      if (spec.name != name) continue;
      if (spec.kind == FieldKind::integer) {
        const auto value = text_.size({key}, std::get<std::int64_t>(spec.fallback));
        layer.add(spec.name, std::to_string(value->value), value->source);
        continue;
      }
      const json* value = top(key);
      const bool given = value && !value->is_null();
      layer.add(spec.name, fmt::format("{}", given ? text_.number(*value, path(key)) : std::get<double>(spec.fallback)),
                given ? path(key) : text_.class_default());
    }
  }

  void read_table(LayerPositions& layer) {
    if (!sizes_.max_positions)
      text_.fail("{} is missing: the size of the learned table", path("max_position_embeddings"));
    std::int64_t limit = sizes_.max_positions->value;
    std::string source = sizes_.max_positions->source;
    if (hf_.table_after_padding) {
      // Rows up to the padding token's are never a position's.
      const json* padding = top("pad_token_id");
      const std::int64_t reserved = (padding && padding->is_number_integer() ? padding->get<std::int64_t>() : 1) + 1;
      limit -= reserved;
      source = fmt::format("derived: {} - {} rows before the first position", source, reserved);
    }
    if (limit < 1)
      text_.fail("the learned table has no row for a position: {} is {}", source, sizes_.max_positions->value);
    out_.table_limit = limit;
    out_.trained_length = limit;
    layer.add("table_limit", std::to_string(limit), source);
  }

  void read_rope() {
    out_.layers = RopeSetsReader(text_, sizes_, source_of_encoding_).read();
    for (const LayerPositions& layer : out_.layers) {
      if (layer.encoding != ModelEncoding::rope || out_.trained_length) continue;
      const double trained =
          layer.rope.original_max_position_embeddings.value_or(layer.rope.max_position_embeddings.value_or(0));
      if (trained >= 1 && trained < 9e15) out_.trained_length = static_cast<std::int64_t>(trained);
    }
  }

  void finish() {
    if (const json* window = top("sliding_window");
        window && window->is_number_integer() && text_.boolean("use_sliding_window", true)) {
      for (LayerPositions& layer : out_.layers) {
        if (layer.layer_type == "full_attention") continue;
        layer.add("sliding_window", shown(*window), path("sliding_window"));
      }
    }
    out_.warnings = std::move(text_.warnings());
    out_.ignored = std::move(text_.ignored());
    if (text_.older_spelling) {
      out_.renamed =
          "Older spelling: transformers 5 writes rope_scaling, type and rope_theta as rope_parameters with "
          "rope_type and rope_theta inside; the meaning is the same.";
    }
  }

  const json* top(std::string_view key) const { return text_.top(key); }
  std::string path(std::string_view key) const { return text_.path(key); }

  ConfigText text_;
  const HfClass& hf_ = text_.hf();
  HfSizes sizes_;
  std::string source_of_encoding_;
  ModelConfig out_;
};

}  // namespace

TextPart text_part(const json& config) {
  for (const char* key : {"text_config", "llm_config", "language_config", "thinker_config"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_object()) continue;
    TextPart part = std::string_view(key) == "thinker_config" ? text_part(*found) : TextPart{&*found, ""};
    part.prefix = std::string(key) + "." + part.prefix;
    return part;
  }
  return {&config, ""};
}

ModelConfig model_config(const json& config, std::string_view name) { return ConfigReader(config, name).read(config); }

}  // namespace poslab
