// What poslab trains and no other family can hold, in Llama's keys and names.
#include "poslab/models/families/shared_reading.h"

namespace poslab {
namespace {

TransformerConfig read_own(const ConfigKeys& keys) {
  TransformerConfig c = read_gated(keys);
  c.norm = keys.word<NormKind>("norm");
  c.norm_eps = keys.real("norm_eps");
  c.mlp = keys.word<MlpKind>("mlp");
  c.set_biases(keys.boolean("biases"));
  c.qkv_bias = keys.boolean("qkv_bias", c.qkv_bias);
  c.o_bias = keys.boolean("o_bias", c.o_bias);
  c.attention_window = keys.integer("attention_window", 0);
  PositionEncoding encoding;
  if (const std::string word = keys.text("position_embedding_type", "rope"); word == none_method().config_word()) {
    encoding = PositionEncoding(none_method());
  } else if (keys.find("position_embedding_type")) {
    encoding = keys.word<PositionEncoding>("position_embedding_type");
  }
  MethodParams::fields(c.method, [&](std::string_view name, auto& value, auto...) {
    if (method_with_parameter(name) == &*encoding) keys.read_field(std::string(name), value);
  });
  if (encoding->acts_on(Place::rotation)) {
    nlohmann::json rotary = keys.all();
    rotary["model_type"] = "llama";
    rotary.erase("position_embedding_type");
    read_rope(ConfigKeys(rotary, keys.path()), c);
    c.rope.rotary_dim = keys.integer("rotary_dim", c.head_dim);
  }
  c.encoding = encoding;
  return c;
}

constexpr RunnableFamily run{.read = read_own};

}  // namespace

extern constinit const Family poslab_family = {
    .name = "poslab's own",
    .who = "poslab train",
    .model_type = "poslab",
    .class_name = "PoslabForCausalLM",
    .hf = {.default_type_is_partial = true, .names_encoding = true},
    .run = &run,
};

}  // namespace poslab
