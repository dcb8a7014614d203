#include "poslab/model_configs/gguf_config.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "gguf_bytes.h"
#include "poslab/model_configs/config_differences.h"
#include "poslab/rope/scalings.h"
#include "scratch.h"
#include "shared_files.h"

using namespace poslab;

namespace {

// 4 heads of 8 channels, 2 kv heads, context 64.
GgufBytes model(const std::string& arch = "llama", std::uint32_t layers = 1) {
  return GgufBytes()
      .string("general.architecture", arch)
      .u32(arch + ".block_count", layers)
      .u32(arch + ".embedding_length", 32)
      .u32(arch + ".attention.head_count", 4)
      .u32(arch + ".attention.head_count_kv", 2)
      .u32(arch + ".context_length", 64);
}

ModelConfig read(const GgufBytes& bytes) {
  const Scratch scratch;
  return gguf_config(GgufFile(scratch.file(bytes.bytes(), "a.gguf")));
}

std::string error_of(const GgufBytes& bytes) {
  try {
    read(bytes);
  } catch (const std::invalid_argument& e) {
    const std::string text = e.what();
    return text.substr(text.find(": ") + 2);
  }
  return "no error";
}

std::string source_of(const LayerPositions& layer, const std::string& name) {
  for (const auto& fact : layer.facts) {
    if (fact.name == name) return fact.source;
  }
  return "";
}

}  // namespace

TEST_CASE("gguf config: Llama as GGUF stores it") {
  const ModelConfig c = read(model().f32("llama.rope.freq_base", 5e5F));
  REQUIRE(c.layers.size() == 1);
  const LayerPositions& layer = c.layers[0];
  CHECK(layer.layout == RopeLayout::interleaved);
  CHECK(layer.rope.head_dim == 8);
  CHECK(layer.rope.rotary_dim == 8);
  CHECK(layer.rope.rope_theta == 5e5);
  CHECK(layer.rope.rope_type == default_scaling);
  CHECK(c.n_heads == 4);
  CHECK(c.n_kv_heads == 2);
  CHECK(c.trained_length == 64);
  CHECK(source_of(layer, "rope_theta") == "llama.rope.freq_base");
  CHECK(source_of(layer, "head_dim") == "derived: embedding_length / head_count");
}

TEST_CASE("gguf config: the architecture decides the layout, keys the width") {
  const ModelConfig c =
      read(model("gptneox").u32("gptneox.attention.key_length", 16).u32("gptneox.rope.dimension_count", 4));
  CHECK(c.layers[0].layout == RopeLayout::half);
  CHECK(c.layers[0].rope.head_dim == 16);
  CHECK(c.layers[0].rope.rotary_dim == 4);
  CHECK(c.layers[0].rope.partial_rotary_factor == 0.25);
}

TEST_CASE("gguf config: scalings, with ggml's meaning of the attention factor") {
  const ModelConfig linear = read(model().f32("llama.rope.scaling.factor", 4));
  CHECK(linear.layers[0].rope.rope_type == linear_scaling);
  CHECK(linear.layers[0].rope.factor == 4);
  CHECK(read(model().f32("llama.rope.scale_linear", 2)).layers[0].rope.factor == 2);
  CHECK(read(model().string("llama.rope.scaling.type", "none").f32("llama.rope.scaling.factor", 4))
            .layers[0]
            .rope.rope_type == default_scaling);

  const ModelConfig yarn = read(model()
                                    .string("llama.rope.scaling.type", "yarn")
                                    .f32("llama.rope.scaling.factor", 4)
                                    .u32("llama.rope.scaling.original_context_length", 16)
                                    .f32("llama.rope.scaling.attn_factor", 0.5F)
                                    .f32("llama.rope.scaling.yarn_beta_fast", 16));
  const RopeScaling& rope = yarn.layers[0].rope;
  CHECK(rope.rope_type == yarn_scaling);
  CHECK(rope.original_max_position_embeddings == 16);
  CHECK(rope.beta_fast == 16);
  CHECK(rope_frequencies(rope).attention_factor == doctest::Approx(0.5 * (1 + 0.1 * std::log(4))).epsilon(1e-15));
  CHECK(yarn.trained_length == 16);
}

TEST_CASE("gguf config: YaRN's own keys mean what the config said that they were copied from") {
  const auto yarn = [](const std::string& arch = "llama") {
    return model(arch)
        .string(arch + ".rope.scaling.type", "yarn")
        .f32(arch + ".rope.scaling.factor", 4)
        .u32(arch + ".rope.scaling.original_context_length", 16);
  };
  const double own = 1 + 0.1 * std::log(4);
  CHECK(read(yarn()).warnings.empty());
  CHECK(read(yarn()).layers[0].rope.beta_fast == 32);
  CHECK(source_of(read(yarn()).layers[0], "beta_fast") == "rope_type default");

  const ModelConfig betas = read(yarn().f32("llama.rope.scaling.yarn_beta_fast", 16));
  CHECK(betas.layers[0].rope.beta_fast == 16);
  CHECK(source_of(betas.layers[0], "beta_fast") == "llama.rope.scaling.yarn_beta_fast");
  REQUIRE(betas.warnings.size() == 1);
  CHECK(betas.warnings[0] ==
        "llama.rope.scaling.yarn_beta_fast 16 is followed, as the model's config means it; llama.cpp takes 32.");
  CHECK(read(yarn("mistral3").f32("mistral3.rope.scaling.yarn_beta_slow", 2)).warnings.empty());

  // Hugging Face's attention_factor replaces YaRN's; GGUF's attn_factor multiplies it.
  const ModelConfig replaced = read(yarn().f32("llama.rope.scaling.yarn_attn_factor", 0.5F));
  CHECK(rope_frequencies(replaced.layers[0].rope).attention_factor == 0.5);
  CHECK(source_of(replaced.layers[0], "attention_factor") == "llama.rope.scaling.yarn_attn_factor");
  REQUIRE(replaced.warnings.size() == 1);
  CHECK(replaced.warnings[0].find("llama.rope.scaling.yarn_attn_factor 0.5 is followed") == 0);
  CHECK(read(yarn().f32("llama.rope.scaling.yarn_attn_factor", static_cast<float>(own))).warnings.empty());

  const ModelConfig linear =
      read(model().f32("llama.rope.scaling.factor", 4).f32("llama.rope.scaling.attn_factor", 0.5F));
  REQUIRE(linear.warnings.size() == 1);
  CHECK(linear.warnings[0] ==
        "llama.rope.scaling.attn_factor 0.5 is not followed: rope_type linear has no attention factor.");
}

TEST_CASE("gguf config: frequency factors divide the frequencies") {
  const ModelConfig c = read(model().floats("rope_freqs.weight", {4}, {1, 2, 4, 8}));
  const RopeFrequencies f = rope_frequencies(c.layers[0].rope);
  const std::vector<double> plain = rope_inv_freq(8, 10000);
  REQUIRE(f.inv_freq.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(f.inv_freq[i] == plain[i] / std::pow(2.0, i));
  CHECK(f.attention_factor == 1);

  const ModelConfig both = read(model()
                                    .u32("llama.rope.scaling.original_context_length", 16)
                                    .floats("rope_factors_short.weight", {4}, {1, 1, 1, 1})
                                    .floats("rope_factors_long.weight", {4}, {1, 2, 3, 4}));
  CHECK(rope_frequencies(both.layers[0].rope, 16).inv_freq[3] == plain[3]);
  CHECK(rope_frequencies(both.layers[0].rope, 17).inv_freq[3] == plain[3] / 4);
}

TEST_CASE("gguf config: Gemma 3 has two bases; GPT-2 a table; BLOOM ALiBi") {
  const ModelConfig gemma = read(model("gemma3")
                                     .f32("gemma3.rope.freq_base", 1e6F)
                                     .f32("gemma3.rope.scaling.factor", 8)
                                     .u32("gemma3.attention.sliding_window", 16));
  REQUIRE(gemma.layers.size() == 2);
  CHECK(layer_positions(gemma, "full_attention").rope.rope_theta == 1e6);
  CHECK(layer_positions(gemma, "full_attention").rope.factor == 8);
  CHECK(layer_positions(gemma, "sliding_attention").rope.rope_theta == 1e4);
  CHECK(layer_positions(gemma, "sliding_attention").rope.rope_type == default_scaling);
  const ModelConfig gpt2 = read(model("gpt2").floats("position_embd.weight", {2, 3}, {1, 2, 3, 4, 5, 6}));
  CHECK(gpt2.layers[0].encoding == ModelEncoding::learned);
  CHECK(gpt2.table_limit == 3);
  CHECK(read(model("bloom")).layers[0].encoding == ModelEncoding(alibi_method));
}

TEST_CASE("gguf config: windows, and which layers have one") {
  const auto fact = [](const LayerPositions& layer, const std::string& name) -> std::string {
    for (const auto& f : layer.facts) {
      if (f.name == name) return f.value + " <- " + f.source;
    }
    return "none";
  };
  const auto windowed = [&](const std::string& arch, std::uint32_t layers = 1) {
    return model(arch, layers).u32(arch + ".attention.sliding_window", 16);
  };
  // One set for all layers.
  const ModelConfig oss = read(windowed("gpt-oss"));
  REQUIRE(oss.layers.size() == 1);
  CHECK(oss.layers[0].layout == RopeLayout::half);
  CHECK(fact(oss.layers[0], "sliding_window") == "16 <- gpt-oss.attention.sliding_window");
  CHECK(fact(oss.layers[0], "sliding_layers") == "1 of 2 <- llama.cpp's rule for gpt-oss");
  CHECK(error_of(model("gpt-oss")) == "has no gpt-oss.attention.sliding_window.");
  CHECK(fact(read(model("gemma2")).layers[0], "sliding_window") == "4096 <- llama.cpp's rule for gemma2");
  // A base of their own, and the pattern as a list.
  const ModelConfig gemma = read(windowed("gemma3n", 3)
                                     .f32("gemma3n.rope.freq_base", 1e6F)
                                     .numbers<std::uint8_t>("gemma3n.attention.sliding_window_pattern", 7, {1, 1, 0}));
  CHECK(layer_positions(gemma, "sliding_attention").rope.rope_theta == 1e4);
  CHECK(fact(layer_positions(gemma, "sliding_attention"), "sliding_layers") ==
        "2 of 3 <- gemma3n.attention.sliding_window_pattern");
  CHECK(read(model("gemma3")).layers.size() == 1);
  const ModelConfig olmo = read(windowed("olmo2").f32("olmo2.rope.scaling.factor", 4));
  CHECK(layer_positions(olmo, "full_attention").rope.rope_type == linear_scaling);
  CHECK(layer_positions(olmo, "sliding_attention").rope.rope_type == default_scaling);
  CHECK(read(model("olmo2")).layers.size() == 1);
  // Without RoPE in the layers that see everything, or in every fourth.
  const ModelConfig cohere = read(windowed("cohere2"));
  CHECK(cohere.layers[0].layer_type == "sliding_attention");
  CHECK(cohere.layers[0].layout == RopeLayout::interleaved);
  CHECK(layer_positions(cohere, "full_attention").encoding == ModelEncoding::none);
  CHECK(fact(read(model("smollm3")).layers[0], "layers_without_rope") == "every 4th <- llama.cpp's rule for smollm3");
  const LayerPositions llama4 = read(model("llama4")).layers[0];
  CHECK(fact(llama4, "attention_chunk_size").starts_with("8192 <- "));
  CHECK(fact(llama4, "layers_without_rope").starts_with("every 4th"));
  const LayerPositions whole = read(model("llama4").u32("llama4.attention.sliding_window", 0)).layers[0];
  CHECK(fact(whole, "attention_chunk_size") == "none");
  CHECK(fact(whole, "layers_without_rope") == "none");
  CHECK(read(model("granite").boolean("granite.rope.scaling.finetuned", false)).layers[0].encoding ==
        ModelEncoding::none);
}

TEST_CASE("gguf config: which layers slide") {
  const auto windowed = [] { return model("gemma3", 7).u32("gemma3.attention.sliding_window", 16); };
  const auto slide = [](const GgufBytes& bytes) {
    const Scratch scratch;
    const SlidingWindow window = gguf_sliding_window(GgufFile(scratch.file(bytes.bytes(), "a.gguf")));
    CHECK(window.tokens == (window.layers.empty() ? 0 : 16));
    return window.layers;
  };
  using Layers = std::vector<bool>;
  const std::string key = "gemma3.attention.sliding_window_pattern";
  CHECK(slide(windowed()) == Layers{true, true, true, true, true, false, true});
  CHECK(slide(windowed().u32(key, 3)) == Layers{true, true, false, true, true, false, true});
  CHECK(slide(windowed().u32(key, 0)) == Layers(7, true));
  CHECK(slide(windowed().u32(key, 1)).empty());
  CHECK(slide(windowed().numbers<std::uint8_t>(key, 7, {0, 0, 1, 0, 0, 0, 1})) ==
        Layers{false, false, true, false, false, false, true});
  CHECK(slide(windowed().numbers<std::uint32_t>(key, 4, {1, 0, 0, 0, 0, 0, 0})) ==
        Layers{true, false, false, false, false, false, false});
  CHECK(slide(windowed().numbers<std::uint8_t>(key, 7, {0, 0, 0, 0, 0, 0, 0})).empty());
  CHECK(slide(model("gemma3", 7)).empty());
  CHECK(slide(model("llama", 7)).empty());
  CHECK(error_of(windowed().numbers<std::uint8_t>(key, 7, {1, 0})) == key + " lists 2 layers of 7.");
  CHECK(error_of(windowed().entry(key, 5, GgufBytes::raw<std::int32_t>(-1))) == key + " must be 0 or more but is -1.");
}

// Values of DeepSeek-V2-Lite: factor 40, mscale_all_dim 0.707, softmax scale times (0.1 * 0.707 ln 40 + 1)^2.
TEST_CASE("gguf config: DeepSeek's part that turns, its attention factor and softmax scale") {
  const ModelConfig c = read(model("deepseek2")
                                 .u32("deepseek2.attention.key_length", 576)
                                 .u32("deepseek2.rope.dimension_count", 64)
                                 .string("deepseek2.rope.scaling.type", "yarn")
                                 .f32("deepseek2.rope.scaling.factor", 40)
                                 .u32("deepseek2.rope.scaling.original_context_length", 4096)
                                 .f32("deepseek2.rope.scaling.yarn_log_multiplier", 0.0707F));
  const LayerPositions& layer = c.layers[0];
  CHECK(layer.layout == RopeLayout::interleaved);
  CHECK(layer.rope.head_dim == 64);
  CHECK(layer.rope.rotary_dim == 64);
  CHECK(rope_frequencies(layer.rope).attention_factor == 1);
  const double mscale = 1 + 0.0707 * std::log(40.0);
  CHECK(layer.softmax_multiplier == doctest::Approx(mscale * mscale).epsilon(1e-7));
  const ModelConfig preset = load_model_config("deepseek-v2-lite");
  CHECK(preset.layers[0].softmax_multiplier == doctest::Approx(layer.softmax_multiplier).epsilon(1e-7));
  CHECK(error_of(model("deepseek2")) == "has no deepseek2.rope.dimension_count.");
}

TEST_CASE("gguf config: what is wrong is named") {
  CHECK(error_of(GgufBytes()) == "has no general.architecture.");
  CHECK(
      error_of(GgufBytes().string("general.architecture", "odd")).find("the architecture odd is not known; llama, ") ==
      0);
  CHECK(error_of(GgufBytes().string("general.architecture", "llama")) == "has no llama.embedding_length.");
  CHECK(error_of(model().u32("llama.attention.key_length", 0)) ==
        "llama.attention.key_length must be above 0 but is 0.");
  CHECK(error_of(model().entry("llama.attention.key_length", 10, GgufBytes::raw(std::uint64_t{1} << 62))) ==
        "llama.attention.key_length is 4611686018427387904, too large.");
  CHECK(error_of(model().f32("llama.rope.freq_base", -1)) == "llama.rope.freq_base must be above 0 but is -1.");
  CHECK(error_of(model().u32("llama.rope.dimension_count", 10)) ==
        "llama.rope.dimension_count must be even and at most the head's 8 channels but is 10.");
  CHECK(error_of(model().string("llama.rope.scaling.type", "odd")) ==
        "llama.rope.scaling.type is odd; none, linear, yarn and longrope are known.");
  CHECK(error_of(model().floats("rope_freqs.weight", {3}, {1, 1, 1})) ==
        "rope_freqs.weight has 3 numbers for 4 pairs.");
  CHECK(error_of(model().floats("rope_freqs.weight", {4}, {1, 0, 1, 1})) ==
        "rope_freqs.weight holds 0, which divides no frequency.");
  CHECK(error_of(model().floats("blk.0.attn_k.weight", {1, 32}, std::vector<float>(32))) ==
        "tensor blk.0.attn_k.weight has 32 rows but 2 heads of 8 channels need 16.");
  CHECK(error_of(GgufBytes(model("bloom")).numbers<std::uint32_t>("bloom.x", 4, {1})) == "no error");
  CHECK(error_of(GgufBytes()
                     .string("general.architecture", "llama")
                     .u32("llama.embedding_length", 32)
                     .numbers<std::uint32_t>("llama.attention.head_count", 4, {4, 2})) ==
        "llama.attention.head_count differs from layer to layer, which is not supported.");
}

TEST_CASE("gguf config: a file and the config.json beside it") {
  const Scratch scratch;
  const std::string path = scratch.file(model().f32("llama.rope.freq_base", 20000).bytes(), "a.gguf");
  scratch.file(R"({"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 1,
                   "num_hidden_layers": 1, "max_position_embeddings": 64, "rope_theta": 10000})",
               "config.json");
  const ModelConfig c = load_model_config(path);
  REQUIRE(c.warnings.size() == 2);
  CHECK(c.warnings[0].find(("n_kv_heads is 2 in " + path + " but 1 in ")) == 0);
  CHECK(c.warnings[1].find(("rope_theta is 20000 in " + path + " but 10000 in ")) == 0);
}

TEST_CASE("gguf config: scalings are compared by the frequencies that they give, not by their words") {
  const Scratch scratch;
  const auto differences = [&](const GgufBytes& bytes, const std::string& scaling) {
    const std::string path = scratch.file(bytes.bytes(), "a.gguf");
    scratch.file(R"({"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
                     "num_hidden_layers": 1, "max_position_embeddings": 64, "rope_theta": 10000)" +
                     scaling + "}",
                 "config.json");
    return config_differences(gguf_config(GgufFile(path)), load_model_config(scratch.path("config.json")));
  };
  const std::string linear = R"(, "rope_scaling": {"rope_type": "linear", "factor": 4.0})";
  CHECK(differences(model(), "").empty());
  CHECK(differences(model().f32("llama.rope.scaling.factor", 4), linear).empty());
  CHECK(differences(model().floats("rope_freqs.weight", {4}, {4, 4, 4, 4}), linear).empty());
  const auto found = differences(model(), linear);
  REQUIRE(found.size() == 1);
  CHECK(found[0].find("Pair 0 turns by 1 a token in ") == 0);
  CHECK(found[0].find("(default) but by 0.25 in ") != found[0].npos);
  CHECK(found[0].find("(linear 4).") != found[0].npos);
}

TEST_CASE("gguf config: stories260K agrees with its config.json") {
  const auto path = shared_file("models/stories260K/stories260K.gguf");
  if (!path) return;
  const ModelConfig c = load_model_config(*path);
  CHECK(c.warnings.empty());
  CHECK(c.trained_length == 512);
  CHECK(c.layers[0].layout == RopeLayout::interleaved);
}
