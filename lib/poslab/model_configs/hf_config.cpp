#include "poslab/model_configs/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "poslab/core/suggestion.h"
#include "poslab/formats/json_file.h"
#include "poslab/formats/model_files.h"
#include "poslab/model_configs/gguf_config.h"
#include "poslab/model_configs/model_classes.h"
#include "poslab/model_configs/presets.h"
#include "poslab/model_configs/rope_set.h"

namespace poslab {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class Reader : public RopeSetReader {
 public:
  Reader(const json& config, std::string_view name) : RopeSetReader(config, name) {}

  ModelConfig read() {
    if (!config_->is_object()) fail("the top level must be an object but is {}", shown(*config_));
    read_comments();
    enter_text_part();
    find_class();
    read_sizes();
    read_encoding();
    finish();
    return std::move(out_);
  }

 private:
  void read_comments() {
    const json* source = top("_source");
    if (!source || !source->is_string()) return;
    out_.source = source->get<std::string>();
    const json* verified = top("_verified");
    if (verified && verified->is_boolean() && !verified->get<bool>()) out_.source += " (not verified)";
  }

  void enter_text_part() {
    const json* type = top("model_type");
    const TextPart part = text_part(*config_);
    config_ = part.config;
    prefix_ = part.prefix;
    if (const json* inner = top("model_type")) type = inner;
    if (!type || type->is_null()) return;
    if (!type->is_string()) fail("{} must be text but is {}", path("model_type"), shown(*type));
    out_.model_type = type->get<std::string>();
  }

  void find_class() {
    class_ = find_model_class(out_.model_type);
    if (class_) return;
    other_class_.model_type = out_.model_type;
    other_class_.default_type_is_partial = true;
    class_ = &other_class_;
    if (out_.model_type.empty()) {
      warn("model_type is absent: read like a Llama config.");
    } else {
      warn("model_type {} is not known: read like a Llama config.", shown(out_.model_type));
    }
  }

  void read_sizes() {
    hidden_ = size({"hidden_size", "n_embd", "d_model", "n_embed"}, class_->hidden_size);
    heads_ =
        size({"num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"}, class_->n_heads);
    max_positions_ =
        size({"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_target_positions"},
             class_->max_positions);
    if (hidden_) out_.hidden_size = hidden_->value;
    if (heads_) out_.n_heads = heads_->value;
    if (max_positions_) out_.max_position_embeddings = max_positions_->value;
    const auto layers = size({"num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"}, 0);
    if (layers) out_.n_layers = layers->value;
    const auto kv_heads = size({"num_key_value_heads", "num_kv_heads", "multi_query_group_num"}, class_->n_kv_heads);
    if (kv_heads) out_.n_kv_heads = kv_heads->value;
    if (class_->divisible && hidden_ && heads_ && hidden_->value % heads_->value != 0) {
      fail("{} {} is not a multiple of {} {}", path("hidden_size"), hidden_->value, path("num_attention_heads"),
           heads_->value);
    }
  }

  void read_encoding() {
    ModelEncoding encoding = class_->encoding;
    std::string source = out_.model_type.empty() ? "derived: read like Llama" : "model_type " + shown(out_.model_type);
    const auto decide = [&](ModelEncoding e, std::string_view key) {
      encoding = e;
      source = path(key);
    };
    const std::string_view type = class_->model_type;
    if (type == "falcon" && boolean("alibi", false)) decide(ModelEncoding::alibi, "alibi");
    if (type == "mpt" && !boolean("attn_config.alibi", true)) {
      // transformers builds ALiBi whatever this says; the code beside the weights has a learned table then.
      warn("{} is false, which transformers does not look at: its MPT always has ALiBi.", path("attn_config.alibi"));
      ignore(path("attn_config.alibi"));
    }
    if (type == "baichuan" && hidden_ && hidden_->value < 5120) decide(ModelEncoding::rope, "hidden_size");
    if (const json* how = top("position_embedding_type"); how && how->is_string()) {
      const auto& word = how->get_ref<const std::string&>();
      const bool foreign = class_->encoding == ModelEncoding::rope && class_ != &other_class_ && type != "esm";
      if (foreign && word == "absolute") {
        ignore(path("position_embedding_type"));  // left over from BERT's config, as in ModernBERT's
      } else if (const auto named = encoding_named(word); named && *named != encoding) {
        decide(*named, "position_embedding_type");
        if (foreign) warn("{} is no key of {}: transformers ignores it and runs RoPE.", source, type);
      }
    } else if (type == "esm") {
      encoding = ModelEncoding::learned;
      source = class_default();
    }
    if (type == "distilbert" && boolean("sinusoidal_pos_embds", false)) {
      decide(ModelEncoding::sinusoidal, "sinusoidal_pos_embds");
    }

    encoding_source_ = source;
    if (encoding == ModelEncoding::rope) {
      read_rope();
    } else {
      read_other(encoding);
    }
  }

  // The words of position_embedding_type in BERT's family, ESM, Jais, Granite, and ours.
  static std::optional<ModelEncoding> encoding_named(std::string_view word) {
    if (word == "rotary") return ModelEncoding::rope;
    if (word == "nope") return ModelEncoding::none;
    if (word == "relative_key" || word == "relative_key_query") return ModelEncoding::relative;
    if (word == "absolute") return ModelEncoding::learned;
    for (const auto& [encoding, name] : words(ModelEncoding{})) {
      if (name == word) return encoding;
    }
    return std::nullopt;
  }

  void read_other(ModelEncoding encoding) {
    LayerPositions layer;
    layer.encoding = encoding;
    add(layer, "encoding", std::string(to_word(encoding)), encoding_source_);
    switch (encoding) {
      case ModelEncoding::learned:
        read_table(layer);
        break;
      case ModelEncoding::alibi: {
        if (!heads_) fail("{} is missing, and ALiBi's slopes depend on it", path("num_attention_heads"));
        add(layer, "n_heads", std::to_string(heads_->value), heads_->source);
        const json* bias = top("attn_config.alibi_bias_max");
        if (bias && !bias->is_null()) {
          add(layer, "alibi_bias_max", fmt::format("{}", number(*bias, path("attn_config.alibi_bias_max"))),
              path("attn_config.alibi_bias_max"));
        } else {
          add(layer, "alibi_bias_max", "8", class_default());
        }
        break;
      }
      case ModelEncoding::t5: {
        const auto buckets = size({"relative_attention_num_buckets"}, 32);
        const auto distance = size({"relative_attention_max_distance"}, 128);
        add(layer, "num_buckets", std::to_string(buckets->value), buckets->source);
        add(layer, "max_distance", std::to_string(distance->value), distance->source);
        break;
      }
      case ModelEncoding::sinusoidal:
      case ModelEncoding::relative:
      case ModelEncoding::none:
      case ModelEncoding::rope:
        break;
    }
    if (max_positions_) {
      if (encoding != ModelEncoding::none) out_.trained_length = out_.trained_length.value_or(max_positions_->value);
      add(layer, "max_position_embeddings", std::to_string(max_positions_->value), max_positions_->source);
    }
    for (std::string_view key : {"rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor"}) {
      if (const json* v = top(key); v && !v->is_null()) {
        ignore(path(key));
        warn("{} has no effect: the encoding is {}.", path(key), to_word(encoding));
      }
    }
    out_.layers.push_back(std::move(layer));
  }

  void read_table(LayerPositions& layer) {
    if (!max_positions_) fail("{} is missing: the size of the learned table", path("max_position_embeddings"));
    std::int64_t limit = max_positions_->value;
    std::string source = max_positions_->source;
    const std::string_view type = class_->model_type;
    if (type == "roberta" || type == "xlm-roberta" || type == "camembert" || type == "longformer" || type == "esm") {
      // Rows up to the padding token's are never a position's.
      const json* padding = top("pad_token_id");
      const std::int64_t reserved = (padding && padding->is_number_integer() ? padding->get<std::int64_t>() : 1) + 1;
      limit -= reserved;
      source = fmt::format("derived: {} - {} rows before the first position", source, reserved);
    }
    if (limit < 1) fail("the learned table has no row for a position: {} is {}", source, max_positions_->value);
    out_.table_limit = limit;
    out_.trained_length = limit;
    add(layer, "table_limit", std::to_string(limit), source);
  }

  void read_rope() {
    using enum RopeReading;
    switch (class_->reading) {
      case per_layer:
        for (const LayerSet& layer : class_->layers) resolve(layer.layer_type, per_layer_set(layer), true);
        warn_flat_parameters();
        break;
      case nested_only:
        for (const LayerSet& layer : class_->layers) read_nested_only(layer);
        break;
      case rotary_dim:
        read_rotary_dim();
        break;
      case chatglm:
        read_chatglm();
        break;
      case flat:
      case phi3:
      case phimoe:
      case mla:
      case hunyuan:
      case qwen_vl:
        if (class_ == &other_class_ && is_nested()) {
          for (const auto& [type, value] : (*top("rope_parameters")).items()) {
            RopeSet set = set_of(value, path("rope_parameters." + type));
            default_theta(set, "rope_theta", class_->rope_theta);
            resolve(type, std::move(set), true);
          }
        } else {
          resolve("", flat_set(), false);
        }
        break;
    }
    read_layers_without();
  }

  // Whether rope_parameters holds nothing but sets; only asked where the class does not say.
  bool is_nested() const {
    const json* sets = top("rope_parameters");
    if (!sets || !sets->is_object() || sets->empty() || object_at("rope_scaling")) return false;
    return std::all_of(sets->begin(), sets->end(), [](const json& v) { return v.is_object(); });
  }

  RopeSet flat_set() {
    RopeSet set;
    const json* scaling = object_at("rope_scaling");
    const json* parameters = object_at("rope_parameters");
    if (scaling) {
      set = set_of(*scaling, path("rope_scaling"));
      older_ = true;
      if (parameters) {
        ignore(path("rope_parameters"));
        warn("{} replaces {}, which has no effect.", path("rope_scaling"), path("rope_parameters"));
      }
    } else if (parameters) {
      set = set_of(*parameters, path("rope_parameters"));
    } else if (const json* null = top("rope_parameters");
               !class_->rope_parameters.empty() && (!null || null->is_null())) {
      const json defaults = json::parse(class_->rope_parameters);
      for (const auto& [key, value] : defaults.items()) set[key] = {value, class_default()};
      warn("No rope_parameters are given: the class default of {} is used, {}.", class_->model_type,
           set["rope_type"].value.get<std::string>());
    }
    default_theta(set, class_->theta_key, class_->rope_theta);
    default_partial(set);
    return set;
  }

  RopeSet per_layer_set(const LayerSet& layer) {
    RopeSet set;
    const std::string key(layer.layer_type);
    const json* parameters = object_at("rope_parameters");
    const json* own = parameters && parameters->contains(key) ? &(*parameters)[key] : nullptr;
    if (own && own->is_object()) {
      set = set_of(*own, path("rope_parameters." + key));
    } else if (own && !own->is_null()) {
      fail("{} must be an object but is {}", path("rope_parameters." + key), shown(*own));
    } else {
      set["rope_type"] = {"default", class_default()};
    }
    if (const json* scaling = object_at("rope_scaling"); scaling && layer.scaled) {
      older_ = true;
      for (auto& [name, given] : set_of(*scaling, path("rope_scaling"))) set[name] = given;
    }
    default_theta(set, layer.theta_key, layer.rope_theta);
    default_partial(set);
    return set;
  }

  // A flat rope_parameters, or rope_theta, where the class looks for sets by layer type: never read.
  void warn_flat_parameters() {
    const bool reads_theta = std::any_of(class_->layers.begin(), class_->layers.end(),
                                         [](const LayerSet& layer) { return layer.theta_key == "rope_theta"; });
    if (!reads_theta && top("rope_theta")) {
      ignore(path("rope_theta"));
      warn("{} has no effect: {} reads {}.", path("rope_theta"), class_->model_type, class_->layers.front().theta_key);
    }
    for (const auto& [key, value] : object_or_empty(object_at("rope_parameters")).items()) {
      const bool is_layer = std::any_of(class_->layers.begin(), class_->layers.end(),
                                        [&k = key](const LayerSet& layer) { return layer.layer_type == k; });
      if (is_layer) continue;
      ignore(path("rope_parameters." + key));
      warn("{} has no effect: {} reads one set for each layer type (rope_parameters.{}.{}, ...).",
           path("rope_parameters." + key), class_->model_type, class_->layers.front().layer_type, key);
    }
  }

  void read_nested_only(const LayerSet& layer) {
    for (std::string_view key :
         {"rope_theta", "rope_scaling", "rope_local_base_freq", "swa_rope_theta", "partial_rotary_factor"}) {
      if (const json* v = top(key); v && !v->is_null()) {
        ignore(path(key));
        warn("{} has no effect: {} reads rope_parameters alone.", path(key), class_->model_type);
      }
    }
    RopeSet set;
    const std::string key(layer.layer_type);
    const json* parameters = top("rope_parameters");
    if (!parameters || parameters->is_null()) {
      set["rope_type"] = {std::string(layer.rope_type), class_default()};
      set["rope_theta"] = {layer.rope_theta, class_default()};
      if (layer.partial_rotary_factor != 0) {
        set["partial_rotary_factor"] = {layer.partial_rotary_factor, class_default()};
      }
      warn("No rope_parameters are given: the class defaults of {} are used.", class_->model_type);
    } else {
      if (!parameters->is_object()) fail("{} must be an object but is {}", path("rope_parameters"), shown(*parameters));
      if (!parameters->contains(key)) fail("{} is missing", path("rope_parameters." + key));
      const json& own = (*parameters)[key];
      if (own.is_null()) {
        LayerPositions without;
        without.layer_type = key;
        without.encoding = ModelEncoding::none;
        add(without, "encoding", "none", path("rope_parameters." + key));
        out_.layers.push_back(std::move(without));
        return;
      }
      if (!own.is_object()) fail("{} must be an object but is {}", path("rope_parameters." + key), shown(own));
      set = set_of(own, path("rope_parameters." + key));
      if (!set.contains("rope_theta")) fail("{} is missing", path("rope_parameters." + key + ".rope_theta"));
    }
    resolve(key, std::move(set), true);
  }

  // GPT-J and CodeGen.
  void read_rotary_dim() {
    RopeSet set;
    set["rope_theta"] = {10000, class_default()};
    for (std::string_view key : {"rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor"}) {
      if (const json* v = top(key); v && !v->is_null()) {
        ignore(path(key));
        warn("{} has no effect: {} always turns rotary_dim channels with base 10000.", path(key), class_->model_type);
      }
    }
    const json* given = top("rotary_dim");
    if (given && given->is_null()) warn("{} is null: the whole head turns.", path("rotary_dim"));
    resolve("", std::move(set), false, size({"rotary_dim"}, given ? 0 : 64));
  }

  void read_chatglm() {
    RopeSet set;
    const json* ratio = top("rope_ratio");
    const double times = ratio && !ratio->is_null() ? number(*ratio, path("rope_ratio")) : 1;
    set["rope_theta"] = {10000 * times, ratio ? "derived: 10000 * " + path("rope_ratio") : class_default()};
    if (object_at("rope_scaling")) {
      ignore(path("rope_scaling"));
      warn("{} has no effect: chatglm reads rope_ratio.", path("rope_scaling"));
    }
    const auto width = head_dim();
    resolve("", std::move(set), false, {{width.value / 2, "derived: half of the head, as ChatGLM turns"}});
  }

  // theta: inside the set, then at the top level, then the class default.
  void default_theta(RopeSet& set, std::string_view key, double fallback) {
    const json* outer = key.empty() ? nullptr : top(key);
    if (key != "rope_theta") {
      if (const json* other = top("rope_theta"); other && !other->is_null() && class_->layers.empty()) {
        ignore(path("rope_theta"));
        warn("{} has no effect: {} reads {}.", path("rope_theta"), class_->model_type, key);
      }
    }
    if (const Given* inner = find(set, "rope_theta")) {
      if (outer && *outer != inner->value) {
        ignore(path(key));
        warn("{} is {} but {} is {}: the value inside wins.", path(key), shown(*outer), inner->source,
             shown(inner->value));
      }
      return;
    }
    if (outer) {
      set["rope_theta"] = {*outer, path(key)};
      return;
    }
    set["rope_theta"] = {fallback, class_default()};
    if (key.empty()) return;
    warn("{} is not given: {} is used, the class default{}.", path(key), fallback,
         class_ == &other_class_ ? " of Llama" : fmt::format(" of {}", class_->model_type));
  }

  // partial_rotary_factor: inside the set, then at the top level, then the class default. A scaled type reads the set
  // again after the class has stored its own attribute, which then overwrites the inner value.
  void default_partial(RopeSet& set) {
    constexpr std::string_view name = "partial_rotary_factor";
    attribute_.reset();
    const json* outer = top(name);
    const bool outer_given = outer && !outer->is_null();
    if (outer_given) attribute_ = Given{*outer, path(name)};
    std::optional<Given> fallback = attribute_;
    if (class_->partial_key != name) {
      // The class takes the older key away, so that only a value of the newer name is left as an attribute.
      const json* older = top(class_->partial_key);
      fallback =
          older ? Given{*older, path(class_->partial_key)} : Given{class_->partial_rotary_factor, class_default()};
      if (!older && class_->partial_rotary_factor == 0) fallback.reset();
    } else if (class_->model_type == "minimax_m2" && !outer_given && top("rotary_dim")) {
      const double share = number(*top("rotary_dim"), path("rotary_dim")) / static_cast<double>(head_dim().value);
      attribute_ = fallback = Given{share, "derived: " + path("rotary_dim") + " / head_dim"};
    } else if (!outer_given && class_->partial_rotary_factor != 0) {
      attribute_ = fallback = Given{class_->partial_rotary_factor, class_default()};
    }
    if (fallback && !set.contains(name)) set[std::string(name)] = *fallback;
  }

  // Layer types that carry no position at all beside those that turn.
  void read_layers_without() {
    const std::string_view type = class_->model_type;
    const json* window = top("sliding_window");
    if (type == "cohere2" || (type == "exaone4" && window && !window->is_null())) {
      out_.layers.front().layer_type = "sliding_attention";
      LayerPositions without;
      without.layer_type = "full_attention";
      without.encoding = ModelEncoding::none;
      add(without, "encoding", "none", class_default());
      out_.layers.push_back(std::move(without));
    }
    if (type == "smollm3" || type == "llama4_text") {
      LayerPositions& layer = out_.layers.front();
      if (const json* list = top("no_rope_layers"); list && list->is_array() && !list->empty()) {
        const auto without = std::count_if(list->begin(), list->end(), [](const json& v) { return !truthy(v); });
        add(layer, "layers_without_rope", fmt::format("{} of {}", without, list->size()), path("no_rope_layers"));
      } else {
        const auto every = size({"no_rope_layer_interval"}, 4);
        add(layer, "layers_without_rope", fmt::format("every {}th", every->value), every->source);
      }
    }
  }

  void finish() {
    if (const json* window = top("sliding_window");
        window && window->is_number_integer() && boolean("use_sliding_window", true)) {
      for (LayerPositions& layer : out_.layers) {
        if (layer.layer_type == "full_attention") continue;
        add(layer, "sliding_window", shown(*window), path("sliding_window"));
      }
    }
    if (older_) {
      out_.renamed =
          "Older spelling: transformers 5 writes rope_scaling, type and rope_theta as rope_parameters with "
          "rope_type and rope_theta inside; the meaning is the same.";
    }
  }

  ModelClass other_class_;  // of a model_type that the table does not have
};

ModelConfig read_gguf_config(const std::string& path, const std::optional<std::string>& beside) {
  ModelConfig config = gguf_config(GgufFile(path));
  if (beside) {
    const auto differences = config_differences(config, model_config(read_json_file(*beside), *beside));
    config.warnings.insert(config.warnings.end(), differences.begin(), differences.end());
  }
  return config;
}

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

ModelConfig model_config(const json& config, std::string_view name) { return Reader(config, name).read(); }

ModelConfig load_model_config(const std::string& path_or_preset) {
  const bool path_like = path_or_preset.find('/') != path_or_preset.npos || path_or_preset.ends_with(".json") ||
                         names_weights(path_or_preset);
  if (!path_like) {
    if (const auto text = preset_text(path_or_preset)) {
      return model_config(parse_json(*text, fmt::format("preset {}", path_or_preset)), path_or_preset);
    }
    std::error_code error;
    if (!fs::exists(path_or_preset, error)) {
      const std::vector<std::string> names = preset_names();
      const std::string near = suggestion(path_or_preset, names);
      throw std::invalid_argument(
          fmt::format("[model_config] '{}' is neither a preset nor a file{}", path_or_preset,
                      near.empty() ? fmt::format("; the presets: {}.", fmt::join(names, ", ")) : near));
    }
  }
  const ModelFiles files = model_files(path_or_preset);
  if (path_or_preset.ends_with(".gguf") && !files.gguf.empty() && files.gguf[0] == path_or_preset) {
    return read_gguf_config(path_or_preset, files.config);
  }
  if (files.config) return model_config(read_json_file(*files.config), *files.config);
  if (std::error_code error; fs::is_directory(path_or_preset, error)) {
    if (files.gguf.size() == 1) return read_gguf_config(files.gguf[0], std::nullopt);
    throw std::invalid_argument(fmt::format(
        "[model_config] the folder {} has no config.json{}.", path_or_preset,
        files.gguf.empty()
            ? ""
            : fmt::format(" and {} GGUF files: name one of {}", files.gguf.size(), fmt::join(files.gguf, ", "))));
  }
  if (files.safetensors) {
    throw std::invalid_argument(fmt::format("[model_config] {} has no config.json beside it.", path_or_preset));
  }
  return model_config(read_json_file(path_or_preset), path_or_preset);
}

const LayerPositions& layer_positions(const ModelConfig& config, const std::optional<std::string>& layer_type) {
  if (!layer_type) return config.layers.front();
  std::vector<std::string> types;
  for (const LayerPositions& layer : config.layers) {
    if (layer.layer_type == *layer_type) return layer;
    if (!layer.layer_type.empty()) types.push_back(layer.layer_type);
  }
  if (types.empty()) {
    throw std::invalid_argument(
        fmt::format("[model_config] {} has one set for all layers, no layer_type '{}'.", config.name, *layer_type));
  }
  throw std::invalid_argument(fmt::format("[model_config] {} has no layer_type '{}', but {}.", config.name, *layer_type,
                                          fmt::join(types, ", ")));
}

}  // namespace poslab
