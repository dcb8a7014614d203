#include "poslab/formats/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "poslab/core/suggestion.h"
#include "poslab/formats/json_file.h"
#include "poslab/formats/model_classes.h"
#include "poslab/formats/presets.h"

namespace poslab {
namespace {

using nlohmann::json;

// A value and the key path or rule it came from.
struct Given {
  json value;
  std::string source;
};

// The parameters of one RoPE set by their Hugging Face names.
using RopeSet = std::map<std::string, Given, std::less<>>;

template <class T>
struct Sourced {
  T value;
  std::string source;
};

// As Python's bool(...): what `rope_scaling or rope_parameters` looks at.
bool truthy(const json& v) {
  if (v.is_boolean()) return v.get<bool>();
  if (v.is_number()) return v.get<double>() != 0;
  if (v.is_string()) return !v.get_ref<const std::string&>().empty();
  return !v.empty();
}

// A value of the file as it stands there, short enough for a one-line message.
std::string shown(const json& v) {
  constexpr std::size_t longest = 40;
  std::string text = v.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return text;
}

std::string text_of(double v) { return fmt::format("{}", v); }

std::string list_summary(const std::vector<double>& list) {
  if (list.empty()) return "empty";
  const auto [low, high] = std::minmax_element(list.begin(), list.end());
  return fmt::format("{} values, {} to {}", list.size(), *low, *high);
}

const json& object_or_empty(const json* v) {
  static const json empty = json::object();
  return v && v->is_object() ? *v : empty;
}

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const auto end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

// Keys that rope_type reads: the required ones first, then the optional ones. rope_theta and partial_rotary_factor go
// with every type.
struct TypeKeys {
  std::string_view required, optional;
};
TypeKeys keys_of(RopeType type) {
  switch (type) {
    case RopeType::default_:
      return {"", ""};
    case RopeType::linear:
    case RopeType::dynamic:
    case RopeType::ntk:
      return {"factor", ""};
    case RopeType::ntk_by_parts:
      return {"factor", "original_max_position_embeddings beta_fast beta_slow"};
    case RopeType::yarn:
      return {"factor",
              "original_max_position_embeddings attention_factor beta_fast beta_slow mscale mscale_all_dim truncate"};
    case RopeType::longrope:
      return {"short_factor long_factor", "original_max_position_embeddings attention_factor factor"};
    case RopeType::llama3:
      return {"factor low_freq_factor high_freq_factor", "original_max_position_embeddings"};
    case RopeType::proportional:
      return {"", "factor"};
  }
  return {};
}

bool uses_original_length(RopeType type) {
  return type == RopeType::yarn || type == RopeType::longrope || type == RopeType::llama3 ||
         type == RopeType::ntk_by_parts;
}

std::vector<std::string> rope_type_words() {
  std::vector<std::string> out;
  for (const auto& entry : words(RopeType{})) out.emplace_back(entry.second);
  return out;
}

class Reader {
 public:
  Reader(const json& config, std::string_view name) : config_(&config) { out_.name = name; }

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
  template <class... A>
  [[noreturn]] void fail(fmt::format_string<A...> text, A&&... args) const {
    const std::string line = fmt::format(text, std::forward<A>(args)...);
    throw std::invalid_argument(
        fmt::format("[model_config] {}: {}{}", out_.name, line, line.ends_with('?') ? "" : "."));
  }

  template <class... A>
  void warn(fmt::format_string<A...> text, A&&... args) {
    std::string line = fmt::format(text, std::forward<A>(args)...);
    if (std::find(out_.warnings.begin(), out_.warnings.end(), line) == out_.warnings.end()) {
      out_.warnings.push_back(std::move(line));
    }
  }

  void ignore(std::string path) {
    if (std::find(out_.ignored.begin(), out_.ignored.end(), path) == out_.ignored.end()) {
      out_.ignored.push_back(std::move(path));
    }
  }

  // ---- access

  // The value at a top-level key, or at "outer.inner"; nullptr when absent.
  const json* top(std::string_view key) const {
    const auto dot = key.find('.');
    if (dot != key.npos) {
      const json& outer = object_or_empty(top(key.substr(0, dot)));
      const auto it = outer.find(key.substr(dot + 1));
      return it == outer.end() ? nullptr : &*it;
    }
    const auto it = config_->find(key);
    return it == config_->end() ? nullptr : &*it;
  }

  std::string path(std::string_view key) const { return prefix_ + std::string(key); }
  std::string class_default() const { return fmt::format("class default ({})", class_->model_type); }

  double number(const json& v, std::string_view where) const {
    if (!v.is_number()) fail("{} must be a number but is {}", where, shown(v));
    return v.get<double>();
  }

  std::int64_t positive_integer(const json& v, std::string_view where) const {
    if (!v.is_number_integer()) fail("{} must be an integer but is {}", where, shown(v));
    if (v.get<double>() < 1 || v.get<double>() > 9e15) fail("{} must be at least 1 but is {}", where, shown(v));
    return v.get<std::int64_t>();
  }

  bool boolean(std::string_view key, bool fallback) const {
    const json* v = top(key);
    if (!v || v->is_null()) return fallback;
    if (!v->is_boolean()) fail("{} must be true or false but is {}", path(key), shown(*v));
    return v->get<bool>();
  }

  // The first of the keys that has a value; else the class default (0: none).
  std::optional<Sourced<std::int64_t>> size(std::initializer_list<std::string_view> keys, std::int64_t fallback) const {
    for (std::string_view key : keys) {
      if (const json* v = top(key); v && !v->is_null()) return {{positive_integer(*v, path(key)), path(key)}};
    }
    if (fallback > 0) return {{fallback, class_default()}};
    return std::nullopt;
  }

  // A non-empty object; nullptr when Python would take it for false.
  const json* object_at(std::string_view key) const {
    const json* v = top(key);
    if (!v || !truthy(*v)) return nullptr;
    if (!v->is_object()) fail("{} must be an object but is {}", path(key), shown(*v));
    return v;
  }

  static RopeSet set_of(const json& object, const std::string& where) {
    RopeSet set;
    for (const auto& [key, value] : object.items()) set[key] = {value, where + "." + key};
    return set;
  }

  static const Given* find(const RopeSet& set, std::string_view key) {
    const auto it = set.find(key);
    return it == set.end() ? nullptr : &it->second;
  }

  // Absent and null are the same here.
  std::optional<double> optional_number(const RopeSet& set, std::string_view key) const {
    const Given* g = find(set, key);
    if (!g || g->value.is_null()) return std::nullopt;
    return number(g->value, g->source);
  }

  double required_number(const RopeSet& set, std::string_view key) const {
    const Given& g = *find(set, key);
    return number(g.value, g.source);
  }

  // ---- the parts of a config

  void read_comments() {
    const json* source = top("_source");
    if (!source || !source->is_string()) return;
    out_.source = source->get<std::string>();
    const json* verified = top("_verified");
    if (verified && verified->is_boolean() && !verified->get<bool>()) out_.source += " (not verified)";
  }

  // Multimodal models keep the language model's config in a part of their own.
  void enter_text_part() {
    const json* type = config_->contains("model_type") ? &(*config_)["model_type"] : nullptr;
    for (const char* key : {"text_config", "llm_config", "language_config", "thinker_config"}) {
      const json* part = top(key);
      if (!part || !part->is_object()) continue;
      config_ = part;
      prefix_ += std::string(key) + ".";
      if (std::string_view(key) == "thinker_config") return enter_text_part();
      break;
    }
    const json* inner = top("model_type");
    if (inner) type = inner;
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
    const auto kv_heads = size({"num_key_value_heads", "num_kv_heads", "multi_query_group_num"}, 0);
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
      if (word == "rotary" || word == "rope") decide(ModelEncoding::rope, "position_embedding_type");
      if (word == "alibi") decide(ModelEncoding::alibi, "position_embedding_type");
      if (word == "nope") decide(ModelEncoding::none, "position_embedding_type");
      if (word == "relative_key" || word == "relative_key_query") {
        decide(ModelEncoding::relative, "position_embedding_type");
      }
      if (word == "absolute" || word == "learned" || word == "learned_absolute") {
        if (encoding == ModelEncoding::rope) decide(ModelEncoding::learned, "position_embedding_type");
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

  // ---- encodings other than RoPE

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
          add(layer, "alibi_bias_max", text_of(number(*bias, path("attn_config.alibi_bias_max"))),
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

  // ---- RoPE

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

  // ---- one RoPE set

  Sourced<std::int64_t> head_dim() const {
    if (class_->reading == RopeReading::mla) return *size({"qk_rope_head_dim"}, class_->head_dim);
    if (auto given = size({"head_dim", "kv_channels"}, class_->head_dim)) return *given;
    if (!hidden_) fail("{} is missing, and so is head_dim", path("hidden_size"));
    if (!heads_) fail("{} is missing, and so is head_dim", path("num_attention_heads"));
    if (hidden_->value < heads_->value) {
      fail("{} {} is less than {} {}", path("hidden_size"), hidden_->value, path("num_attention_heads"), heads_->value);
    }
    return {hidden_->value / heads_->value, fmt::format("derived: {} / {}", hidden_->source, heads_->source)};
  }

  Sourced<std::int64_t> head_dim_of_layer(std::string_view layer_type) const {
    if (class_->model_type == "gemma4_text" && layer_type == "full_attention") return *size({"global_head_dim"}, 512);
    return head_dim();
  }

  RopeType read_type(RopeSet& set) {
    const Given* newer = find(set, "rope_type");
    const Given* older = find(set, "type");
    if (newer && older && newer->value != older->value) {
      ignore(older->source);
      warn("{} is {} but {} is {}: rope_type wins.", older->source, shown(older->value), newer->source,
           shown(newer->value));
    }
    type_ = newer ? *newer : older ? *older : Given{"default", "derived: no rope_type is given"};
    older_ = older_ || (!newer && older);
    if (!type_.value.is_string()) fail("{} must be text but is {}", type_.source, shown(type_.value));
    std::string word = type_.value.get<std::string>();

    if (class_->reading == RopeReading::phi3 && (word == "su" || word == "yarn")) {
      warn("{} {} is an older name: Phi-3 takes it for longrope.", type_.source, shown(type_.value));
      // The older name is not yet known when a missing length is filled in.
      if (word == "su" && !set.contains("original_max_position_embeddings")) {
        fail("{} is missing, which type su needs", path("rope_scaling.original_max_position_embeddings"));
      }
      word = "longrope";
    }
    if (class_->reading == RopeReading::phi3 && word != "default" && word != "longrope") {
      fail("{} must be longrope for Phi-3 but is {}", type_.source, shown(type_.value));
    }
    if (class_->reading == RopeReading::qwen_vl && word == "mrope") {
      warn("{} \"mrope\" is an older name for default, with positions of three kinds.", type_.source);
      word = "default";
    }
    for (const auto& [enumerator, name] : words(RopeType{})) {
      if (name != word) continue;
      if (enumerator == RopeType::ntk || enumerator == RopeType::ntk_by_parts) {
        warn("{} {} is not known to transformers, which refuses the model; the formula is poslab's.", type_.source,
             shown(type_.value));
      }
      return enumerator;
    }
    if (word == "mrope") fail("{} is \"mrope\", which only Qwen2-VL's config reads", type_.source);
    fail("{} is {}, which is no rope_type{}", type_.source, shown(type_.value), suggestion(word, rope_type_words()));
  }

  // Missing keys are an error, unknown ones a warning.
  void check_keys(const RopeSet& set, RopeType type) {
    const TypeKeys keys = keys_of(type);
    std::vector<std::string> missing;
    std::string_view rest = keys.required;
    while (!rest.empty()) {
      const auto end = std::min(rest.find(' '), rest.size());
      if (!set.contains(rest.substr(0, end))) missing.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (!missing.empty()) {
      fail("{} missing in {}, which rope_type {} needs",
           missing.size() == 1 ? missing.front() + " is" : fmt::format("{} are", fmt::join(missing, ", ")), set_path(),
           to_word(type));
    }
    for (const auto& [key, given] : set) {
      if (has_word("rope_type type rope_theta partial_rotary_factor", key)) continue;
      if (has_word(keys.required, key) || has_word(keys.optional, key) || has_word(class_->own_keys, key)) continue;
      if (key == "attn_factor") continue;  // has a line of its own
      if (class_->reading == RopeReading::mla && key == "mscale_all_dim") continue;
      if (class_->reading == RopeReading::hunyuan && key == "alpha" && type == RopeType::dynamic) continue;
      ignore(given.source);
      warn("{} has no effect: rope_type {} does not read it.", given.source, to_word(type));
    }
  }

  // Where the set stands, for messages about keys that are absent.
  std::string set_path() const {
    const std::string where = object_at("rope_scaling") ? "rope_scaling" : "rope_parameters";
    return path(set_layer_.empty() || where == "rope_scaling" ? where : where + "." + set_layer_);
  }

  void resolve(std::string_view layer_type, RopeSet set, bool nested,
               std::optional<Sourced<std::int64_t>> rotary_dim = std::nullopt) {
    set_layer_ = layer_type;
    LayerPositions layer;
    layer.layer_type = layer_type;
    layer.layout = class_->layout;
    std::string layout_source = encoding_source_;
    if (class_->reading == RopeReading::mla && class_->model_type != "deepseek_v2" && top("rope_interleave")) {
      layer.layout = boolean("rope_interleave", true) ? RopeLayout::interleaved : RopeLayout::half;
      layout_source = path("rope_interleave");
    }

    RopeScaling& rope = layer.rope;
    rope.rope_type = read_type(set);
    rope.rope_theta = required_number(set, "rope_theta");
    if (!(rope.rope_theta > 0)) {
      fail("{} must be above 0 but is {}", find(set, "rope_theta")->source, rope.rope_theta);
    }
    check_keys(set, rope.rope_type);
    const auto width = head_dim_of_layer(layer_type);
    rope.head_dim = width.value;
    const json* null_head_dim = top("head_dim");
    if (null_head_dim && null_head_dim->is_null() && !class_->has_head_dim &&
        (rope.rope_type == RopeType::dynamic || rope.rope_type == RopeType::yarn ||
         rope.rope_type == RopeType::longrope)) {
      fail("{} is null, which rope_type {} of {} cannot use: leave the key out", path("head_dim"),
           to_word(rope.rope_type), class_->model_type);
    }
    if (max_positions_) rope.max_position_embeddings = static_cast<double>(max_positions_->value);

    const Sourced<double> partial = read_partial(set, rope.rope_type);
    rope.partial_rotary_factor = partial.value;
    if (!rotary_dim) {
      if (rope.rope_type == RopeType::proportional) {
        rotary_dim = {rope.head_dim, "derived: proportional spreads over the whole head"};
      } else {
        // Truncated, as Python's int().
        rotary_dim = {static_cast<std::int64_t>(static_cast<double>(rope.head_dim) * partial.value),
                      partial.value == 1 ? "derived: head_dim" : "derived: head_dim * partial_rotary_factor"};
      }
    }
    rope.rotary_dim = rotary_dim->value;
    check_width(rope);

    const std::string original_source = read_original(set, rope, nested);
    read_parameters(set, rope, nested);
    check_values(set, rope);
    if (class_->reading == RopeReading::mla && rope.rope_type != RopeType::default_) {
      layer.softmax_multiplier = mla_softmax_multiplier(rope);
    }
    read_alpha(set, rope);
    const double attention_factor = frequencies_of(rope).attention_factor;

    // ---- facts
    const auto from = [&](std::string_view key) { return find(set, key) ? find(set, key)->source : class_default(); };
    add(layer, "encoding", "rope", encoding_source_);
    add(layer, "layout", std::string(to_word(layer.layout)), layout_source);
    add(layer, "head_dim", std::to_string(rope.head_dim), width.source);
    add(layer, "partial_rotary_factor", text_of(partial.value), partial.source);
    add(layer, "rotary_dim", std::to_string(rope.rotary_dim), rotary_dim->source);
    add(layer, "rope_theta", text_of(rope.rope_theta), from("rope_theta"));
    add(layer, "rope_type", std::string(to_word(rope.rope_type)), type_.source);
    if (rope.factor) {
      const Given* factor = find(set, rope.rope_type == RopeType::ntk && find(set, "alpha") ? "alpha" : "factor");
      const bool given = factor && !factor->value.is_null();
      add(layer, "factor", text_of(*rope.factor),
          given ? factor->source : "derived: max_position_embeddings / original_max_position_embeddings");
    }
    if (rope.original_max_position_embeddings) {
      add(layer, "original_max_position_embeddings", text_of(*rope.original_max_position_embeddings), original_source);
    }
    const auto add_if = [&](bool used, std::string_view key, std::string value, std::string fallback) {
      if (!used) return;
      const Given* g = find(set, key);
      add(layer, std::string(key), std::move(value), g && !g->value.is_null() ? g->source : std::move(fallback));
    };
    const bool yarn = rope.rope_type == RopeType::yarn;
    add_if(yarn, "beta_fast", text_of(rope.beta_fast), "rope_type default");
    add_if(yarn, "beta_slow", text_of(rope.beta_slow), "rope_type default");
    add_if(yarn, "truncate", rope.truncate ? "true" : "false", "rope_type default");
    add_if(rope.mscale.has_value(), "mscale", text_of(rope.mscale.value_or(0)), "");
    add_if(rope.mscale_all_dim.has_value(), "mscale_all_dim", text_of(rope.mscale_all_dim.value_or(0)), "");
    const bool llama3 = rope.rope_type == RopeType::llama3;
    add_if(llama3, "low_freq_factor", text_of(rope.low_freq_factor), "");
    add_if(llama3, "high_freq_factor", text_of(rope.high_freq_factor), "");
    const bool longrope = rope.rope_type == RopeType::longrope;
    add_if(longrope, "short_factor", list_summary(rope.short_factor), "");
    add_if(longrope, "long_factor", list_summary(rope.long_factor), "");
    for (std::string_view key : {"mrope_section", "short_mscale", "long_mscale", "llama_4_scaling_beta"}) {
      if (const Given* g = find(set, key); g && has_word(class_->own_keys, key)) {
        add(layer, std::string(key), shown(g->value), g->source);
      }
    }
    add_if(true, "attention_factor", text_of(attention_factor), attention_factor_rule(rope));
    add(layer, "softmax_multiplier", text_of(layer.softmax_multiplier),
        class_->reading == RopeReading::mla ? "derived: (0.1 * mscale_all_dim * ln(factor) + 1)^2 in MLA models"
                                            : "derived: 1 outside MLA models");
    if (max_positions_) {
      add(layer, "max_position_embeddings", std::to_string(max_positions_->value), max_positions_->source);
    }
    const auto trained =
        rope.original_max_position_embeddings ? rope.original_max_position_embeddings : rope.max_position_embeddings;
    if (trained) {
      add(layer, "trained_length", text_of(*trained),
          rope.original_max_position_embeddings ? original_source : max_positions_->source);
      if (!out_.trained_length && *trained < 9e15) out_.trained_length = static_cast<std::int64_t>(*trained);
    }
    out_.layers.push_back(std::move(layer));
  }

  Sourced<double> read_partial(const RopeSet& set, RopeType type) {
    const Given* inner = find(set, "partial_rotary_factor");
    const bool scaled = type != RopeType::default_;
    if (scaled && attribute_ && inner && attribute_->value != inner->value) {
      warn("{} {} is overwritten by {} ({}), since rope_type is {}.", inner->source, shown(inner->value),
           shown(attribute_->value), attribute_->source, to_word(type));
      ignore(inner->source);
      inner = &*attribute_;
    } else if (attribute_ && inner && attribute_->value != inner->value &&
               attribute_->source == path("partial_rotary_factor")) {
      warn("{} is {} but {} is {}: {} counts.", attribute_->source, shown(attribute_->value), inner->source,
           shown(inner->value), inner->source);
      ignore(attribute_->source);
    }
    if (!inner) return {1, "derived: no partial_rotary_factor is given"};
    const double value = number(inner->value, inner->source);
    if (!scaled && !class_->default_type_is_partial && value != 1) {
      warn("{} {} has no effect: the default rope_type of {} turns the whole head (a scaled type would honour it).",
           inner->source, shown(inner->value), class_->model_type);
      ignore(inner->source);
      return {1, fmt::format("derived: rope_type default of {} turns the whole head", class_->model_type)};
    }
    return {value, inner->source};
  }

  void check_width(const RopeScaling& rope) {
    const double p = rope.partial_rotary_factor;
    if (!(p >= 0) || p > 1) {
      if (!(p > 0 && p <= 16)) fail("partial_rotary_factor must lie in (0, 1] but is {}", p);
      warn("partial_rotary_factor {} is above 1: the model fails at its first forward.", p);
    }
    if (rope.rotary_dim < 1) {
      fail("rotary_dim is {}: head_dim {} times partial_rotary_factor {}", rope.rotary_dim, rope.head_dim, p);
    }
    if (rope.rotary_dim % 2 != 0) {
      warn(
          "rotary_dim {} is odd (head_dim {} times partial_rotary_factor {}): there are {} frequencies, and the model "
          "fails at its first forward.",
          rope.rotary_dim, rope.head_dim, p, (rope.rotary_dim + 1) / 2);
    }
    if (rope.rotary_dim > 1'000'000) fail("rotary_dim {} is too large", rope.rotary_dim);
  }

  // The length of pre-training: a flat config's top-level value, else the inner one, else max_position_embeddings.
  // Returns where it came from.
  std::string read_original(const RopeSet& set, RopeScaling& rope, bool nested) {
    constexpr std::string_view name = "original_max_position_embeddings";
    if (!uses_original_length(rope.rope_type)) return "";
    const Given* inner = find(set, name);
    const json* outer = nested ? nullptr : top(name);
    if (outer && !outer->is_null()) {
      rope.original_max_position_embeddings = number(*outer, path(name));
      if (inner && inner->value != *outer) {
        warn("{} is {} but {} is {}: the top level wins.", inner->source, shown(inner->value), path(name),
             shown(*outer));
        ignore(inner->source);
      }
      return path(name);
    }
    if (class_->reading == RopeReading::phi3) {
      rope.original_max_position_embeddings = 4096;
      if (inner && inner->value != 4096) {
        warn("{} is {}, but Phi-3 reads it at the top level, where it is absent: 4096, its class default.",
             inner->source, shown(inner->value));
        ignore(inner->source);
      }
      return class_default();
    }
    if (inner) {
      rope.original_max_position_embeddings = number(inner->value, inner->source);
      return inner->source;
    }
    if (!max_positions_) fail("{} is missing, and so is max_position_embeddings", set_path() + "." + std::string(name));
    rope.original_max_position_embeddings = static_cast<double>(max_positions_->value);
    warn("{}.{} is not given: max_position_embeddings {} is taken.", set_path(), name, max_positions_->value);
    return max_positions_->source;
  }

  void read_parameters(const RopeSet& set, RopeScaling& rope, bool nested) {
    switch (rope.rope_type) {
      case RopeType::default_:
        break;
      case RopeType::linear:
      case RopeType::dynamic:
      case RopeType::ntk:
        rope.factor = required_number(set, "factor");
        break;
      case RopeType::proportional:
        if (set.contains("factor")) rope.factor = required_number(set, "factor");
        break;
      case RopeType::yarn:
      case RopeType::ntk_by_parts:
        read_ramp(set, rope, nested);
        break;
      case RopeType::longrope:
        rope.factor = factor_or_ratio(set, rope);
        rope.attention_factor = optional_number(set, "attention_factor");
        rope.short_factor = list(set, "short_factor", rope);
        rope.long_factor = list(set, "long_factor", rope);
        break;
      case RopeType::llama3:
        rope.factor = required_number(set, "factor");
        rope.low_freq_factor = required_number(set, "low_freq_factor");
        rope.high_freq_factor = required_number(set, "high_freq_factor");
        break;
    }
    if (rope.rope_type == RopeType::dynamic && !max_positions_) {
      fail("{} is missing, which rope_type dynamic needs", path("max_position_embeddings"));
    }
    if (const Given* g = find(set, "attn_factor")) {
      const double given = number(g->value, g->source);
      ignore(g->source);
      warn(
          "{} {} has no effect: transformers reads attention_factor. As ggml reads it, it multiplies 0.1 ln(factor) + "
          "1, so that attention_factor would be {}.",
          g->source, given, given * yarn_mscale(rope.factor.value_or(1)));
    }
  }

  void read_ramp(const RopeSet& set, RopeScaling& rope, bool nested) {
    rope.factor = factor_or_ratio(set, rope);
    // `or 32` upstream: null and 0 are the default.
    const auto beta = [&](std::string_view key, double fallback) {
      const double given = optional_number(set, key).value_or(0);
      if (given < 0) fail("{} must be above 0 but is {}", find(set, key)->source, given);
      return given == 0 ? fallback : given;
    };
    rope.beta_fast = beta("beta_fast", 32);
    rope.beta_slow = beta("beta_slow", 1);
    if (rope.rope_type != RopeType::yarn) return;
    rope.attention_factor = optional_number(set, "attention_factor");
    rope.mscale = optional_number(set, "mscale");
    rope.mscale_all_dim = optional_number(set, "mscale_all_dim");
    if (const Given* g = find(set, "truncate")) {
      if (g->value.is_string()) fail("{} must be true or false but is {}", g->source, shown(g->value));
      rope.truncate = truthy(g->value);
      if (nested) {
        if (!rope.truncate) {
          warn("{} has no effect: transformers looks for truncate outside the layer type's set, so it stays true.",
               g->source);
          ignore(g->source);
        }
        rope.truncate = true;
      }
    }
    if (rope.rotary_dim % 2 != 0) fail("rotary_dim {} is odd, for which yarn's ramp has no shape", rope.rotary_dim);
    if (rope.rope_theta == 1) fail("rope_theta 1 leaves yarn's ramp without a value (it divides by ln(rope_theta))");
  }

  // factor null means max_position_embeddings / original_max_position_embeddings.
  double factor_or_ratio(const RopeSet& set, const RopeScaling& rope) {
    if (const auto given = optional_number(set, "factor")) return *given;
    const double original = *rope.original_max_position_embeddings;
    if (!max_positions_) fail("factor is not given, and max_position_embeddings to derive it from is missing");
    if (!(original > 0)) fail("original_max_position_embeddings must be above 0 but is {}", original);
    const double ratio = static_cast<double>(max_positions_->value) / original;
    warn("factor is not given: max_position_embeddings {} / original_max_position_embeddings {} = {} is taken.",
         max_positions_->value, original, ratio);
    return ratio;
  }

  std::vector<double> list(const RopeSet& set, std::string_view key, const RopeScaling& rope) {
    const Given& g = *find(set, key);
    if (!g.value.is_array()) fail("{} must be a list of numbers but is {}", g.source, shown(g.value));
    std::vector<double> out;
    for (const json& v : g.value) out.push_back(number(v, g.source));
    const auto pairs = static_cast<std::size_t>((rope.rotary_dim + 1) / 2);
    if (out.size() != pairs) fail("{} must have {} values, one per pair, but has {}", g.source, pairs, out.size());
    return out;
  }

  // What transformers only warns about.
  void check_values(const RopeSet& set, const RopeScaling& rope) {
    if (rope.rope_type == RopeType::default_) return;
    const Given* factor = find(set, "factor");
    if (factor && factor->value.is_number() && !(*rope.factor >= 1)) {
      warn("{} is {}, below 1: it squeezes positions further apart instead of stretching the context.", factor->source,
           *rope.factor);
    }
    if (rope.attention_factor) {
      const Given* g = find(set, "attention_factor");
      if (*rope.attention_factor < 0) warn("{} is {}, below 0.", g->source, *rope.attention_factor);
      if (rope.rope_type == RopeType::yarn && g->value.is_number_integer()) {
        warn("{} {} is an integer, where transformers expects a real number.", g->source, shown(g->value));
      }
    }
    if (rope.rope_type == RopeType::proportional && !set.contains("partial_rotary_factor")) {
      warn("partial_rotary_factor is not given: proportional turns every pair, as linear does.");
    }
    if (rope.rope_type == RopeType::yarn) {
      if (rope.beta_fast < rope.beta_slow) {
        warn("beta_fast {} is below beta_slow {}: the ramp runs backwards.", rope.beta_fast, rope.beta_slow);
      }
      check_ratio(set, rope);
    }
    if (rope.rope_type == RopeType::llama3) {
      if (rope.high_freq_factor <= rope.low_freq_factor) {
        warn("high_freq_factor {} is not above low_freq_factor {}.", rope.high_freq_factor, rope.low_freq_factor);
      }
      if (const Given* g = find(set, "original_max_position_embeddings"); g && !g->value.is_number_integer()) {
        warn("{} {} is not an integer.", g->source, shown(g->value));
      }
      if (max_positions_ && *rope.original_max_position_embeddings >= static_cast<double>(max_positions_->value)) {
        warn("original_max_position_embeddings {} is not below max_position_embeddings {}.",
             *rope.original_max_position_embeddings, max_positions_->value);
      }
    }
    if (rope.rope_type == RopeType::longrope && *rope.original_max_position_embeddings <= 1) {
      fail("original_max_position_embeddings must be above 1 for longrope but is {}",
           *rope.original_max_position_embeddings);
    }
    if (class_->reading == RopeReading::phimoe) {
      for (std::string_view key : {"short_mscale", "long_mscale"}) {
        const Given* g = find(set, key);
        if (!g) fail("{}.{} is missing, which a scaled PhiMoE needs", set_path(), key);
        number(g->value, g->source);
      }
      warn(
          "PhiMoE multiplies cos and sin by short_mscale or long_mscale; the attention factor shown is the formula's.");
    }
    if (const Given* g = find(set, "llama_4_scaling_beta"); g && has_word(class_->own_keys, "llama_4_scaling_beta")) {
      warn(
          "{} {} multiplies queries by a factor that grows with their position; it is no part of the attention factor.",
          g->source, shown(g->value));
    }
  }

  // The user's factor wins over the ratio of the lengths; transformers compares it with the inner original length.
  void check_ratio(const RopeSet& set, const RopeScaling& rope) {
    const Given* inner = find(set, "original_max_position_embeddings");
    const Given* factor = find(set, "factor");
    if (!inner || !max_positions_ || factor->value.is_null()) return;
    const double original = number(inner->value, inner->source);
    if (original == 0) fail("{} must be above 0 but is 0", inner->source);
    const double ratio = static_cast<double>(max_positions_->value) / original;
    if (ratio == *rope.factor || ratio == 1) return;
    warn("{} is {} but max_position_embeddings {} / {} {} = {}: the factor given is used.", factor->source,
         *rope.factor, max_positions_->value, inner->source, original, ratio);
  }

  // HunYuan's dynamic type with alpha is a fixed base theta * alpha^(dim / (dim - 2)) up to max_position_embeddings:
  // static NTK with alpha for its factor.
  void read_alpha(const RopeSet& set, RopeScaling& rope) {
    if (class_->reading != RopeReading::hunyuan || rope.rope_type != RopeType::dynamic) return;
    const Given* g = find(set, "alpha");
    if (!g || !truthy(g->value)) return;
    rope.rope_type = RopeType::ntk;
    rope.factor = number(g->value, g->source);
    rope.rotary_dim = rope.head_dim;
    warn(
        "{} makes rope_type dynamic a fixed base, rope_theta * alpha^(dim / (dim - 2)), which poslab calls ntk; beyond "
        "max_position_embeddings transformers turns to plain dynamic, without alpha.",
        g->source);
  }

  RopeFrequencies frequencies_of(const RopeScaling& rope) const {
    try {
      return rope_frequencies(rope);
    } catch (const std::invalid_argument& e) {
      std::string_view what = e.what();
      if (const auto end = what.find("] "); end != what.npos) what.remove_prefix(end + 2);
      while (!what.empty() && what.back() == '.') what.remove_suffix(1);
      fail("{}", what);
    }
  }

  static std::string attention_factor_rule(const RopeScaling& rope) {
    if (rope.rope_type == RopeType::longrope) return "derived: sqrt(1 + ln(factor) / ln(original)) where factor > 1";
    if (rope.rope_type != RopeType::yarn) return fmt::format("derived: 1 for rope_type {}", to_word(rope.rope_type));
    if (rope.mscale.value_or(0) != 0 && rope.mscale_all_dim.value_or(0) != 0) {
      return "derived: (0.1 mscale ln(factor) + 1) / (0.1 mscale_all_dim ln(factor) + 1)";
    }
    return "derived: 0.1 ln(factor) + 1";
  }

  // ---- the end

  static void add(LayerPositions& layer, std::string name, std::string value, std::string source) {
    layer.facts.push_back({std::move(name), std::move(value), std::move(source)});
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

  ModelConfig out_;
  const json* config_;
  std::string prefix_;
  const ModelClass* class_ = nullptr;
  ModelClass other_class_;
  std::optional<Sourced<std::int64_t>> hidden_, heads_, max_positions_;
  std::string encoding_source_;
  std::string set_layer_;           // of the set that is being resolved
  Given type_;                      // its rope_type, as given
  std::optional<Given> attribute_;  // partial_rotary_factor outside the set
  bool older_ = false;              // rope_scaling or type were used
};

bool is_directory(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

}  // namespace

ModelConfig model_config(const json& config, std::string_view name) { return Reader(config, name).read(); }

ModelConfig load_model_config(const std::string& path_or_preset) {
  const bool path_like = path_or_preset.find('/') != path_or_preset.npos || path_or_preset.ends_with(".json");
  if (!path_like) {
    if (const auto text = preset_text(path_or_preset)) {
      return model_config(parse_json(*text, fmt::format("preset {}", path_or_preset)), path_or_preset);
    }
    if (!exists(path_or_preset)) {
      const std::vector<std::string> names = preset_names();
      const std::string near = suggestion(path_or_preset, names);
      throw std::invalid_argument(
          fmt::format("[model_config] '{}' is neither a preset nor a file{}", path_or_preset,
                      near.empty() ? fmt::format("; the presets: {}.", fmt::join(names, ", ")) : near));
    }
  }
  if (!is_directory(path_or_preset)) return model_config(read_json_file(path_or_preset), path_or_preset);
  const std::string file = path_or_preset + (path_or_preset.ends_with('/') ? "" : "/") + "config.json";
  if (!exists(file)) {
    throw std::invalid_argument(fmt::format("[model_config] the folder {} has no config.json.", path_or_preset));
  }
  return model_config(read_json_file(file), file);
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
