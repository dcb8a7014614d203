#include "poslab/model_configs/hf_config.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "golden.h"
#include "poslab/model_configs/presets.h"
#include "poslab/rope/scalings.h"

using namespace poslab;
using nlohmann::json;

namespace {

std::optional<std::string> text_or_none(const json& v) {
  return v.is_null() ? std::nullopt : std::optional(v.get<std::string>());
}

std::string error_of(const json& config) {
  try {
    model_config(config, "c.json");
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

bool any_has(const std::vector<std::string>& lines, std::string_view part) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) { return has(line, part); });
}

ConfigFact fact(const LayerPositions& layer, std::string_view name) {
  for (const ConfigFact& f : layer.facts) {
    if (f.name == name) return f;
  }
  FAIL("no fact " << name);
  return {};
}

// A Llama config with `extra` merged in.
json llama(const json& extra) {
  json config = {{"model_type", "llama"},
                 {"hidden_size", 4096},
                 {"num_attention_heads", 32},
                 {"max_position_embeddings", 4096},
                 {"rope_theta", 10000.0}};
  config.merge_patch(extra);
  for (const auto& [key, value] : extra.items()) config[key] = value;
  return config;
}

// What a line of ours must mention for each line of upstream's.
std::string mention(const std::string& upstream) {
  const std::string_view text = upstream;
  if (has(text, "Unrecognized keys")) return "has no effect";
  if (has(text, "Missing validation function")) return "not known to transformers";
  if (has(text, "factor field must be a float or int >= 1, got None")) return "factor is not given";
  if (has(text, "factor field must be a float or int >= 1")) return "below 1";
  if (has(text, "does not match the ratio"))
    return has(text, "= None)") ? "factor is not given" : "the factor given is used";
  if (has(text, "attention_factor field must be a float greater than 0, got 1")) return "integer";
  if (has(text, "attention_factor field must be")) return "below 0";
  if (has(text, "high_freq_factor field must be greater")) return "not above low_freq_factor";
  if (has(text, "must be less than max_position_embeddings")) return "not below max_position_embeddings";
  if (has(text, "beta_fast field must be greater")) return "below beta_slow";
  if (has(text, "partial_rotary_factor is None")) return "partial_rotary_factor is not given";
  if (has(text, "This model config has set a")) return "factor is not given";
  FAIL("unforeseen upstream warning: " << upstream);
  return "";
}

void check_warnings(const json& expected, const ModelConfig& read) {
  for (const std::string line : expected) {
    CHECK_MESSAGE(any_has(read.warnings, mention(line)),
                  fmt::format("{} <- {}", fmt::join(read.warnings, " | "), line));
  }
}

struct TempDir {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("poslab_hf_" + std::to_string(::getpid()));
  TempDir() { std::filesystem::create_directories(path); }
  ~TempDir() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_CASE("hf_config: the frequencies of 110 configs as transformers gives them") {
  const json cases = golden("rope_frequencies.json");
  REQUIRE(cases.size() == 110);
  for (const json& c : cases) {
    const std::string name = c["name"];
    CAPTURE(name);
    ModelConfig read;
    REQUIRE_NOTHROW(read = model_config(c["config"], name));
    const LayerPositions& layer = layer_positions(read, text_or_none(c["layer_type"]));
    std::optional<std::int64_t> seq_len;
    if (!c["seq_len"].is_null()) seq_len = c["seq_len"];
    const RopeFrequencies got = rope_frequencies(layer.rope, seq_len);

    const std::vector<double> want = c["inv_freq_f64"];
    REQUIRE(got.inv_freq.size() == want.size());
    double worst = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      worst = std::max(worst, want[i] == 0 ? std::abs(got.inv_freq[i]) : std::abs(got.inv_freq[i] / want[i] - 1));
    }
    CHECK(worst < 1e-12);
    CHECK(std::abs(got.attention_factor - c["attention_factor"].get<double>()) < 1e-12);
    CHECK(std::abs(layer.softmax_multiplier - c.value("softmax_scale_multiplier", 1.0)) < 1e-12);
    CHECK(to_word(layer.rope.rope_type) == c["rope_type"].get<std::string>());
    check_warnings(c.value("warnings", json::array()), read);
  }
}

TEST_CASE("hf_config: what transformers refuses, warns about and accepts") {
  for (const json& c : golden("config_validation.json")) {
    const std::string name = c["name"];
    CAPTURE(name);
    const bool ntk = name == "unknown type ntk";  // refused there, known here
    const bool refused = !ntk && (c["config_result"] != "ok" || c["rotary_init"] != "ok");
    const std::string error = error_of(c["config"]);
    CHECK_MESSAGE(error.empty() != refused, error);
    if (refused) {
      continue;
    }
    const ModelConfig read = model_config(c["config"], name);
    check_warnings(c["warnings"], read);
    const json& want = c["resolved_rope_parameters"];
    for (const LayerPositions& layer : read.layers) {
      const json& set = layer.layer_type.empty() ? want : want[layer.layer_type];
      CHECK(layer.rope.rope_theta == set["rope_theta"].get<double>());
      CHECK(to_word(layer.rope.rope_type) == set["rope_type"].get<std::string>());
      if (set.contains("factor") && set["factor"].is_number() && layer.rope.factor) {
        CHECK(*layer.rope.factor == set["factor"].get<double>());
      }
    }
  }
}

// The facts of golden/README that no shared case shows, and what the field reports ask for.

TEST_CASE("hf_config: three spellings of one model give one table") {
  const json old_style = llama({{"rope_theta", 5e5}, {"rope_scaling", {{"type", "linear"}, {"factor", 4}}}});
  const json new_style = llama(
      {{"rope_theta", nullptr}, {"rope_parameters", {{"rope_type", "linear"}, {"factor", 4}, {"rope_theta", 5e5}}}});
  const json nested = {{"model_type", "gemma3_text"},
                       {"hidden_size", 4096},
                       {"head_dim", 128},
                       {"rope_parameters",
                        {{"full_attention", {{"rope_type", "linear"}, {"factor", 4}, {"rope_theta", 5e5}}},
                         {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}}}};
  const auto table = [](const json& config) {
    return rope_frequencies(model_config(config, "c").layers.front().rope).inv_freq;
  };
  REQUIRE(table(old_style).size() == 64);
  CHECK(table(old_style)[1] == doctest::Approx(std::pow(5e5, -2.0 / 128) / 4).epsilon(1e-14));
  CHECK(table(new_style) == table(old_style));
  CHECK(table(nested) == table(old_style));
  CHECK(!model_config(old_style, "c").renamed.empty());
  CHECK(model_config(new_style, "c").renamed.empty());
}

TEST_CASE("hf_config: type and rope_type, and keys that nobody reads") {
  const ModelConfig same = model_config(
      llama({{"rope_scaling", {{"type", "linear"}, {"rope_type", "linear"}, {"factor", 4}, {"foo", 1}}}}), "c");
  CHECK(same.layers.front().rope.rope_type == linear_scaling);
  CHECK(same.ignored == std::vector<std::string>{"rope_scaling.foo"});
  CHECK(any_has(same.warnings, "rope_scaling.foo has no effect"));
  const ModelConfig different =
      model_config(llama({{"rope_scaling", {{"type", "linear"}, {"rope_type", "dynamic"}, {"factor", 4}}}}), "c");
  CHECK(different.layers.front().rope.rope_type == dynamic_scaling);
  CHECK(any_has(different.warnings, "rope_type wins"));
}

TEST_CASE("hf_config: rope_theta inside, outside, twice, nowhere") {
  const auto theta = [](const json& config) { return model_config(config, "c").layers.front().rope.rope_theta; };
  const json twice = llama({{"rope_theta", 5e5}, {"rope_parameters", {{"rope_theta", 12345}}}});
  CHECK(theta(twice) == 12345);
  CHECK(any_has(model_config(twice, "c").warnings, "rope_theta is 500000.0 but rope_parameters.rope_theta is 12345"));
  CHECK(model_config(twice, "c").ignored == std::vector<std::string>{"rope_theta"});

  json nowhere = {{"model_type", "cohere"}};
  CHECK(theta(nowhere) == 5e5);
  CHECK(any_has(model_config(nowhere, "c").warnings,
                "rope_theta is not given: 500000 is used, the class default of cohere"));
  CHECK(fact(model_config(nowhere, "c").layers.front(), "rope_theta").source == "class default (cohere)");
  for (const auto& [type, want] : {std::pair{"mixtral", 1e6},
                                   {"persimmon", 25000.0},
                                   {"llama", 1e4},
                                   {"phimoe", 1e6},
                                   {"llama4_text", 5e5},
                                   {"gpt_oss", 150000.0}}) {
    CHECK_MESSAGE(theta({{"model_type", type}}) == want, type);
  }
}

TEST_CASE("hf_config: a yarn factor given wins over the ratio, an attention factor over the formula") {
  json scaling = {{"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 32768}};
  const ModelConfig ratio = model_config(llama({{"max_position_embeddings", 40960}, {"rope_scaling", scaling}}), "c");
  CHECK(ratio.layers.front().rope.factor == 4);
  CHECK(any_has(ratio.warnings, "= 1.25: the factor given is used"));
  CHECK(ratio.trained_length == 32768);

  scaling["attn_factor"] = 0.8782488562869419;
  const ModelConfig ggml = model_config(llama({{"max_position_embeddings", 131072}, {"rope_scaling", scaling}}), "c");
  CHECK(rope_frequencies(ggml.layers.front().rope).attention_factor == doctest::Approx(1.1386294361119891));
  CHECK(any_has(ggml.warnings, "attn_factor 0.8782488562869419 has no effect"));
  CHECK(any_has(ggml.warnings, "attention_factor would be 1"));

  scaling["factor"] = 64;
  scaling["attention_factor"] = 1.0;
  const ModelConfig explicit_factor = model_config(llama({{"rope_scaling", scaling}}), "c");
  CHECK(rope_frequencies(explicit_factor.layers.front().rope).attention_factor == 1);
  CHECK(fact(explicit_factor.layers.front(), "attention_factor").source == "rope_scaling.attention_factor");
}

TEST_CASE("hf_config: partial_rotary_factor, whom it reaches and whose counts") {
  const auto rotary_dim = [](const json& config) { return model_config(config, "c").layers.front().rope.rotary_dim; };
  const json linear = {{"rope_type", "linear"}, {"factor", 2}};
  CHECK(rotary_dim(llama({{"partial_rotary_factor", 0.5}})) == 128);
  CHECK(any_has(model_config(llama({{"partial_rotary_factor", 0.5}}), "c").warnings, "has no effect"));
  CHECK(rotary_dim(llama({{"partial_rotary_factor", 0.5}, {"rope_scaling", linear}})) == 64);

  const auto glm = [](const std::string& type) {
    return json{{"model_type", "glm4"},
                {"rope_parameters",
                 {{"rope_type", type}, {"factor", 2}, {"rope_theta", 1e4}, {"partial_rotary_factor", 0.25}}}};
  };
  CHECK(rotary_dim(glm("default")) == 32);
  CHECK(rotary_dim(glm("linear")) == 64);  // the class default 0.5
  CHECK(any_has(model_config(glm("linear"), "c").warnings, "is overwritten by 0.5 (class default (glm4))"));

  CHECK(rotary_dim({{"model_type", "gpt_neox_japanese"}}) == 80);
  CHECK(rotary_dim({{"model_type", "gpt_neox"}, {"rotary_pct", 1.0}}) == 96);
  CHECK(rotary_dim({{"model_type", "gptj"}}) == 64);
  CHECK(rotary_dim({{"model_type", "gptj"}, {"rotary_dim", 32}}) == 32);
  CHECK(any_has(
      model_config({{"model_type", "phi"}, {"hidden_size", 2048}, {"partial_rotary_factor", 0.4}}, "c").warnings,
      "rotary_dim 25 is odd"));
}

TEST_CASE("hf_config: sets by layer type") {
  const auto layer = [](const json& config, const char* type) {
    static ModelConfig read;
    read = model_config(config, "c");
    return layer_positions(read, type);
  };
  const json yarn = {{"rope_type", "yarn"}, {"factor", 8}, {"original_max_position_embeddings", 8192}};
  const json olmo = {
      {"model_type", "olmo3"}, {"max_position_embeddings", 65536}, {"rope_theta", 123}, {"rope_scaling", yarn}};
  CHECK(layer(olmo, "full_attention").rope.rope_theta == 123);
  CHECK(layer(olmo, "full_attention").rope.rope_type == yarn_scaling);
  CHECK(layer(olmo, "sliding_attention").rope.rope_theta == 500000);
  CHECK(layer(olmo, "sliding_attention").rope.rope_type == default_scaling);

  CHECK(layer({{"model_type", "mimo_v2_flash"}}, "sliding_attention").rope.rope_theta == 1e4);
  CHECK(layer({{"model_type", "mimo_v2_flash"}}, "sliding_attention").rope.rotary_dim == 64);
  CHECK(layer({{"model_type", "modernbert"}}, "full_attention").rope.rope_theta == 160000);
  CHECK(layer({{"model_type", "modernbert"}, {"global_rope_theta", 7}}, "full_attention").rope.rope_theta == 7);
  CHECK(layer({{"model_type", "gemma3_text"}}, "sliding_attention").rope.rope_theta == 1e4);
  // The full set starts out as {"rope_type": "default"}, so that the older `type` never counts.
  const json older = {{"model_type", "gemma3_text"}, {"rope_scaling", {{"type", "linear"}, {"factor", 8}}}};
  CHECK(layer(older, "full_attention").rope.rope_type == default_scaling);

  // Gemma 3's own spelling: scaling must not reach the sliding layers; the part for text is found.
  const json multimodal = {{"model_type", "gemma3"},
                           {"vision_config", {{"hidden_size", 1152}}},
                           {"text_config",
                            {{"model_type", "gemma3_text"},
                             {"hidden_size", 2560},
                             {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}}}};
  CHECK(layer(multimodal, "full_attention").rope.factor == 8);
  CHECK(layer(multimodal, "sliding_attention").rope.rope_type == default_scaling);
  CHECK(fact(layer(multimodal, "full_attention"), "factor").source == "text_config.rope_scaling.factor");

  const ModelConfig command_r7b = model_config({{"model_type", "cohere2"}}, "c");
  CHECK(layer_positions(command_r7b, std::nullopt).layer_type == "sliding_attention");
  CHECK(layer_positions(command_r7b, "full_attention").encoding == ModelEncoding::none);
  CHECK_THROWS_WITH_AS(layer_positions(command_r7b, "chunked"),
                       "[model_config] c has no layer_type 'chunked', but sliding_attention, full_attention.",
                       std::invalid_argument);
}

TEST_CASE("hf_config: classes with rules of their own") {
  const auto rope = [](const json& config) { return model_config(config, "c").layers.front().rope; };
  // HunYuan: theta * alpha^(dim / (dim - 2)).
  const json hunyuan = {{"model_type", "hunyuan_v1_dense"},
                        {"head_dim", 128},
                        {"max_position_embeddings", 32768},
                        {"rope_theta", 1e4},
                        {"rope_scaling", {{"type", "dynamic"}, {"alpha", 1000.0}, {"factor", 1.0}}}};
  const double base = 1e4 * std::pow(1000.0, 128.0 / 126);
  CHECK(rope_frequencies(rope(hunyuan)).inv_freq[9] == doctest::Approx(std::pow(base, -18.0 / 128)).epsilon(1e-13));

  json phi3 = {{"model_type", "phi3"}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}};
  CHECK(has(error_of(phi3), "rope_scaling.type must be longrope for Phi-3"));
  const json ones(48, 1.0);
  phi3["rope_scaling"] = {{"type", "su"}, {"short_factor", ones}, {"long_factor", ones}};
  CHECK(has(error_of(phi3), "original_max_position_embeddings is missing, which type su needs"));
  phi3["rope_scaling"]["type"] = "yarn";
  phi3["max_position_embeddings"] = 131072;
  CHECK(rope(phi3).rope_type == longrope_scaling);
  CHECK(rope(phi3).factor == 32);

  json phimoe = {{"model_type", "phimoe"},
                 {"rope_scaling", {{"type", "longrope"}, {"original_max_position_embeddings", 4096}}}};
  phimoe["rope_scaling"]["short_factor"] = phimoe["rope_scaling"]["long_factor"] = json(64, 2.0);
  CHECK(has(error_of(phimoe), "short_mscale is missing"));
  phimoe["rope_scaling"]["short_mscale"] = phimoe["rope_scaling"]["long_mscale"] = 1.243163121016122;
  CHECK(rope_frequencies(rope(phimoe)).attention_factor == doctest::Approx(1.1902380714238083).epsilon(1e-14));

  const json vl = {{"model_type", "qwen2_vl"}, {"rope_scaling", {{"type", "mrope"}, {"mrope_section", {16, 24, 24}}}}};
  CHECK(rope(vl).rope_type == default_scaling);
  CHECK(fact(model_config(vl, "c").layers.front(), "mrope_section").value == "[16,24,24]");
  CHECK(model_config(vl, "c").ignored.empty());

  // DeepSeek-V2-Lite's numbers: the ratio is 1, the softmax multiplier (0.0707 ln 40 + 1)^2.
  const ModelConfig lite = load_model_config("deepseek-v2-lite");
  CHECK(rope_frequencies(lite.layers.front().rope).attention_factor == 1);
  CHECK(lite.layers.front().softmax_multiplier == doctest::Approx(1.5896261651208736).epsilon(1e-14));
}

TEST_CASE("hf_config: the layout of a pair") {
  for (const auto& [type, layout] : {std::pair{"llama", RopeLayout::half},
                                     {"gpt_neox", RopeLayout::half},
                                     {"glm4_moe", RopeLayout::half},
                                     {"gptj", RopeLayout::interleaved},
                                     {"cohere", RopeLayout::interleaved},
                                     {"glm4", RopeLayout::interleaved},
                                     {"deepseek_v3", RopeLayout::interleaved},
                                     {"llama4_text", RopeLayout::interleaved}}) {
    CHECK_MESSAGE(model_config({{"model_type", type}}, "c").layers.front().layout == layout, type);
  }
  const json split = {{"model_type", "deepseek_v3"}, {"rope_interleave", false}};
  CHECK(model_config(split, "c").layers.front().layout == RopeLayout::half);
  CHECK(model_config(split, "c").warnings.size() == 1);  // rope_theta is defaulted
  // Followed, and said: stock Llama would not.
  const ModelConfig pairs = model_config(llama({{"rope_interleave", true}}), "c");
  CHECK(pairs.layers.front().layout == RopeLayout::interleaved);
  CHECK(any_has(pairs.warnings, "rope_interleave is no key of llama"));
}

TEST_CASE("hf_config: models without RoPE") {
  const auto encoding = [](const json& config) { return model_config(config, "c").layers.front().encoding; };
  CHECK(encoding({{"model_type", "falcon"}, {"alibi", true}}) == ModelEncoding(alibi_method));
  CHECK(encoding({{"model_type", "falcon"}, {"alibi", false}}) == ModelEncoding::rope);
  CHECK(encoding({{"model_type", "bert"}, {"position_embedding_type", "relative_key"}}) == ModelEncoding::relative);
  CHECK(encoding({{"model_type", "xglm"}}) == ModelEncoding(sinusoidal_method));
  CHECK(encoding(llama({{"position_embedding_type", "alibi"}})) == ModelEncoding(alibi_method));
  CHECK(encoding(llama({{"position_embedding_type", "nope"}})) == ModelEncoding::none);
  CHECK(encoding({{"model_type", "modernbert"}, {"position_embedding_type", "absolute"}}) == ModelEncoding::rope);
  CHECK(encoding({{"model_type", "esm"}, {"position_embedding_type", "absolute"}}) == ModelEncoding::learned);
  CHECK(encoding({{"model_type", "mamba"}}) == ModelEncoding::none);
  const ModelConfig gpt2 = model_config({{"model_type", "gpt2"}, {"n_positions", 256}, {"rope_theta", 1e4}}, "c");
  CHECK(gpt2.table_limit == 256);
  CHECK(gpt2.ignored == std::vector<std::string>{"rope_theta"});
  CHECK(load_model_config("roberta-base").table_limit == 512);
  const ModelConfig mpt = load_model_config("mpt-7b");
  CHECK(fact(mpt.layers.front(), "n_heads").value == "32");
  CHECK(fact(mpt.layers.front(), "alibi_bias_max").source == "attn_config.alibi_bias_max");
  CHECK(fact(load_model_config("t5-small").layers.front(), "num_buckets").value == "32");
}

TEST_CASE("hf_config: bad input names the key") {
  CHECK(has(error_of(json::array()), "[model_config] c.json: the top level must be an object"));
  CHECK(has(error_of(llama({{"hidden_size", "4096"}})), "hidden_size must be an integer but is \"4096\""));
  CHECK(has(error_of(llama({{"hidden_size", 4097}})), "hidden_size 4097 is not a multiple of num_attention_heads 32"));
  CHECK(has(error_of(llama({{"num_attention_heads", 0}})), "num_attention_heads must be 1 .. 1000000000 but is 0"));
  CHECK(has(error_of(llama({{"rope_theta", -1}})), "rope_theta must be above 0"));
  CHECK(has(error_of(llama({{"rope_scaling", "yarn"}})), "rope_scaling must be an object"));
  CHECK(has(error_of({{"model_type", "somebody_else"}}), "hidden_size is missing"));
  CHECK(has(error_of({{"model_type", 7}}), "model_type must be text"));
  CHECK(has(error_of(llama({{"rope_scaling", {{"type", "liner"}, {"factor", 2}}}})), "did you mean 'linear'?"));
  CHECK(
      has(error_of(llama({{"head_dim", 2}, {"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}})), "rotary_dim 2"));
  CHECK(has(
      error_of(llama({{"rope_scaling", {{"type", "yarn"}, {"factor", 2}, {"original_max_position_embeddings", 0}}}})),
      "original_max_position_embeddings must be above 0"));
}

TEST_CASE("hf_config: no value of a key does worse than an error") {
  const std::vector<json> odd = {nullptr,
                                 true,
                                 "x",
                                 -1,
                                 0,
                                 1,
                                 3,
                                 0.5,
                                 1e300,
                                 -1e300,
                                 json::array(),
                                 json::object(),
                                 {{"a", 1}},
                                 json::array({1, "a"}),
                                 9007199254740993};
  std::int64_t read = 0, refused = 0;
  const auto attempt = [&](const json& config) {
    try {
      for (const LayerPositions& layer : model_config(config, "c").layers) {
        if (layer.encoding == ModelEncoding::rope) rope_frequencies(layer.rope, 1000);
      }
      ++read;
    } catch (const std::invalid_argument&) {
      ++refused;
    }
  };
  for (const json& c : golden("rope_frequencies.json")) {
    const json& config = c["config"];
    for (const auto& [key, value] : config.items()) {
      for (const json& v : odd) {
        json changed = config;
        changed[key] = v;
        attempt(changed);
        if (!value.is_object()) continue;
        for (const auto& [inner, ignored] : value.items()) {
          json deep = config;
          deep[key][inner] = v;
          attempt(deep);
        }
      }
    }
  }
  CHECK(read > 3000);
  CHECK(refused > 5000);
}

TEST_CASE("hf_config: a file, a folder, a preset, or a helpful error") {
  const TempDir dir;
  const auto load_error = [](const std::string& what) {
    try {
      load_model_config(what);
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(has(load_error(dir.path), "has no config.json"));
  const std::string file = dir.path / "config.json";
  std::ofstream(file) << llama({{"max_position_embeddings", 123}});
  CHECK(load_model_config(file).max_position_embeddings == 123);
  CHECK(load_model_config(dir.path).max_position_embeddings == 123);
  CHECK(load_model_config(dir.path.string() + "/").name == file);
  std::filesystem::resize_file(file, 1'000'000'000);
  CHECK(has(load_error(dir.path), "larger than 64 MB"));
  std::ofstream(file) << "{not json";
  CHECK(has(load_error(dir.path), "not JSON"));
  CHECK(has(load_error("/nowhere/config.json"), "No such file"));
  CHECK(load_error("llama-2-7") ==
        "[model_config] 'llama-2-7' is neither a preset nor a file, did you mean 'llama-2-7b'?");
  CHECK(has(load_error("zzz"), "the presets: bert-base, "));
}

TEST_CASE("presets: all load, and those marked verified equal what transformers gives") {
  const json cases = golden("rope_frequencies.json");
  std::int64_t verified = 0;
  REQUIRE(preset_names().size() >= 30);
  for (const std::string& name : preset_names()) {
    CAPTURE(name);
    ModelConfig read;
    REQUIRE_NOTHROW(read = load_model_config(name));
    CHECK(!read.source.empty());
    CHECK(!has(read.layers.front().facts.front().source, "not known"));
    const json text = json::parse(*preset_text(name));
    const json& mark = text.at("_verified");
    CHECK(has(read.source, "not verified") == mark.is_boolean());
    if (!mark.is_string()) continue;
    ++verified;
    bool found = false;
    for (const json& c : cases) {
      if (c["name"] != mark) continue;
      found = true;
      std::optional<std::int64_t> seq_len;
      if (!c["seq_len"].is_null()) seq_len = c["seq_len"];
      const auto got = rope_frequencies(layer_positions(read, text_or_none(c["layer_type"])).rope, seq_len);
      const std::vector<double> want = c["inv_freq_f64"];
      REQUIRE(got.inv_freq.size() == want.size());
      for (std::size_t i = 0; i < want.size(); ++i) CHECK(got.inv_freq[i] == doctest::Approx(want[i]).epsilon(1e-12));
      CHECK(got.attention_factor == doctest::Approx(c["attention_factor"].get<double>()).epsilon(1e-12));
    }
    CHECK(found);
  }
  CHECK(verified >= 30);
}

TEST_CASE("where a config states several lengths, max_position_embeddings is the model's") {
  for (const char* other : {"n_positions", "seq_length", "max_target_positions"}) {
    CAPTURE(other);
    CHECK(model_config(llama({{"max_position_embeddings", 32768}, {other, 8192}}), "c").max_position_embeddings ==
          32768);
  }
}
