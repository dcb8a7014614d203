#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "gguf_bytes.h"
#include "golden.h"
#include "poslab/formats/safetensors.h"
#include "poslab/models/checkpoint.h"
#include "poslab/models/checkpoint_config.h"
#include "poslab/models/gguf_checkpoint.h"
#include "scratch.h"
#include "shared_files.h"

namespace {

using namespace poslab;
namespace fs = std::filesystem;

// Of folders of tests/golden/families.
constexpr const char* all_models[] = {"gpt2",     "mistral",         "qwen2", "qwen2_sliding", "qwen3",   "gemma3",
                                      "gpt_neox", "gpt_neox_serial", "bloom", "mpt",           "ernie4_5"};

std::string folder_of(const std::string& name) { return golden_path("families/" + name); }

struct Expected {
  std::vector<std::int64_t> tokens;
  std::vector<double> logits;
};

Expected expected(const std::string& name) {
  const auto json = golden("families/" + name + "/logits.json");
  Expected e{json["tokens"].get<std::vector<std::int64_t>>(), {}};
  for (const auto& row : json["logits"]) {
    for (const auto& value : row) e.logits.push_back(value.get<double>());
  }
  return e;
}

template <class T, class U>
double worst(const std::vector<T>& a, const std::vector<U>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return most;
}

ForwardOptions seeing(std::int64_t window) {
  ForwardOptions options;
  options.attention_window = window;
  return options;
}

std::string load_refusal(const std::string& path) {
  try {
    if (path.ends_with(".gguf")) {
      load_gguf_model<float>(GgufFile(path), 1);
    } else {
      load_checkpoint<float>(path);
    }
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

// A copy of a golden model whose config.json has other values.
std::string edited(const Scratch& scratch, const std::string& name,
                   const nlohmann::json& changes = nlohmann::json::object()) {
  const std::string folder = scratch.path(name);
  fs::remove_all(folder);
  fs::copy(folder_of(name), folder);
  auto config = golden("families/" + name + "/config.json");
  config.merge_patch(changes);
  std::ofstream(folder + "/config.json") << config;
  return folder;
}

struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

std::vector<NamedTensor> tensors_of(const std::string& folder) {
  const SafetensorsFile file(folder);
  std::vector<NamedTensor> out;
  for (const SafetensorsTensor& tensor : file.tensors()) {
    out.push_back({tensor.name, tensor.shape, std::vector<float>(static_cast<std::size_t>(tensor.size))});
    file.read<float>(tensor, out.back().values);
  }
  return out;
}

void write_tensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  std::vector<SafetensorsEntry<float>> entries;
  for (const NamedTensor& t : tensors) entries.push_back({t.name, t.shape, t.values});
  write_safetensors<float>(path, entries, {{"format", "pt"}});
}

// The bytes of a GGUF file with more metadata. Tensors stay aligned: what is put in is a multiple of 32 bytes long.
std::string with_values(const std::string& path, const GgufBytes& more) {
  constexpr std::size_t count_at = 16, values_at = 24;
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {}), added = more.bytes().substr(values_at);
  const std::string empty_pad = GgufBytes().string("pad", "").bytes().substr(values_at);
  added += GgufBytes()
               .string("pad", std::string(32 - (added.size() + empty_pad.size()) % 32, ' '))
               .bytes()
               .substr(values_at);
  std::uint64_t count = 0, extra = 0;
  std::memcpy(&count, bytes.data() + count_at, sizeof count);
  std::memcpy(&extra, more.bytes().data() + count_at, sizeof extra);
  bytes.replace(count_at, sizeof count, GgufBytes::raw<std::uint64_t>(count + extra + 1));
  return bytes.insert(values_at, added);
}

}  // namespace

// transformers' MPT reads alibi_bias_max and then has slopes of 8 whatever it says; the model's authors and llama.cpp
// apply it, and so does poslab.
template <class T>
Transformer<T> load_as_transformers(const std::string& name) {
  Transformer<T> model = std::move(load_checkpoint<T>(folder_of(name)).model);
  TransformerConfig config = model.config();
  config.method.alibi_bias_max = MethodParams().alibi_bias_max;
  Transformer<T> same(config);
  std::ranges::copy(model.values(), same.values().begin());
  return same;
}

TEST_CASE("folders of every family give the logits of transformers") {
  for (const std::string name : all_models) {
    CAPTURE(name);
    const Expected e = expected(name);
    // transformers itself takes some steps in single precision.
    CHECK(worst(load_as_transformers<double>(name).logits(e.tokens, 1), e.logits) < 4e-6);
    CHECK(worst(load_as_transformers<float>(name).logits(e.tokens, 1), e.logits) < 2e-5);
  }
}

TEST_CASE("GGUF files of every family give the same logits") {
  for (const std::string name : all_models) {
    const std::string path = folder_of(name) + "/model.gguf";
    if (!fs::exists(path)) continue;  // what GGUF cannot say
    CAPTURE(name);
    const Expected e = expected(name);
    const Transformer<double> model = load_gguf_model<double>(GgufFile(path), 2);
    const std::vector<double> same = load_checkpoint<double>(folder_of(name)).model.logits(e.tokens, 1);
    // llama.cpp runs every GPT-2 and keeps an epsilon in single precision.
    CHECK(worst(model.logits(e.tokens, 1), same) < 2e-6);
    const Transformer<float> in_f32 = load_gguf_model<float>(GgufFile(path), 1);
    if (in_f32.config().method.alibi_bias_max != 8) continue;  // transformers ignores it
    CHECK(worst(in_f32.logits(e.tokens, 1), e.logits) < 2e-5);
  }
}

TEST_CASE("MPT's alibi_bias_max sets the slopes, from both kinds of files") {
  const Expected e = expected("mpt");
  const auto model = load_checkpoint<double>(folder_of("mpt")).model;
  CHECK(model.config().method.alibi_bias_max == 4);
  CHECK(load_gguf_model<double>(GgufFile(folder_of("mpt") + "/model.gguf"), 1).config().method.alibi_bias_max == 4);
  CHECK(worst(model.logits(e.tokens, 1), e.logits) > 1e-3);
}

TEST_CASE("Gemma 3's GGUF says which layers slide") {
  const Scratch scratch;
  const std::vector<std::int64_t> tokens = expected("gemma3").tokens;
  const std::string key = "gemma3.attention.sliding_window_pattern";
  const auto own = load_gguf_model<double>(GgufFile(folder_of("gemma3") + "/model.gguf"), 1).logits(tokens, 1);
  const auto same = [&](const GgufBytes& pattern, const std::vector<bool>& slides) {
    nlohmann::json types = nlohmann::json::array();
    for (bool s : slides) types.push_back(s ? "sliding_attention" : "full_attention");
    const std::string file = scratch.file(with_values(folder_of("gemma3") + "/model.gguf", pattern), "pattern.gguf");
    const auto logits = load_gguf_model<double>(GgufFile(file), 1).logits(tokens, 1);
    CHECK(worst(logits, own) > 1e-3);
    CHECK(worst(logits,
                load_checkpoint<double>(edited(scratch, "gemma3", {{"layer_types", types}})).model.logits(tokens, 1)) <
          2e-6);
  };
  same(GgufBytes().u32(key, 2), {true, false, true, false, true, false});
  same(GgufBytes().numbers<std::uint8_t>(key, 7, {0, 1, 1, 0, 0, 1}), {false, true, true, false, false, true});
  same(GgufBytes().u32(key, 0), std::vector<bool>(6, true));
  same(GgufBytes().u32(key, 1), std::vector<bool>(6, false));
  CHECK(load_refusal(scratch.file(with_values(folder_of("gemma3") + "/model.gguf",
                                              GgufBytes().f32("gemma3.final_logit_softcapping", 30)),
                                  "capped.gguf"))
            .ends_with("gemma3.final_logit_softcapping is not supported."));
}

TEST_CASE("a real model's two files agree") {
  const auto gguf = shared_file("models/stories260K/stories260K.gguf");
  if (!gguf) return;
  const Transformer<float> one = load_gguf_model<float>(GgufFile(*gguf), 2);
  const Checkpoint<float> other = load_checkpoint<float>(fs::path(*gguf).parent_path().string());
  CHECK(one.config().layout == RopeLayout::interleaved);
  CHECK(other.model.config().layout == RopeLayout::half);
  std::vector<std::int64_t> tokens(600);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int64_t>(i * i % 511);
  CHECK(worst(one.logits(tokens, 1), other.model.logits(tokens, 1)) < 1e-5 * 20);
}

TEST_CASE("a window and a scaling given for an evaluation leave local layers theirs") {
  const Transformer<double> model = std::move(load_checkpoint<double>(folder_of("gemma3")).model);
  const std::vector<std::int64_t> tokens = expected("gemma3").tokens;
  const auto own = model.logits(tokens, 1);
  CHECK(model.logits(tokens, 1, seeing(0)) == own);
  CHECK(model.logits(tokens, 1, seeing(24)) == own);
  CHECK(model.logits(tokens, 1, seeing(7)) != own);
  // Narrower than the local window: all layers see as much.
  TransformerConfig narrow = model.config();
  narrow.local_window = narrow.attention_window = 3;
  Transformer<double> same(narrow);
  std::copy(model.values().begin(), model.values().end(), same.values().begin());
  CHECK(model.logits(tokens, 1, seeing(3)) == same.logits(tokens, 1));
  ForwardOptions same_turns;
  same_turns.rope = rope_frequencies(model.config().rope);
  CHECK(model.logits(tokens, 1, same_turns) == own);
}

TEST_CASE("sharded folders, buffers and tied heads beside their table are read") {
  const Scratch scratch;
  const Expected e = expected("gpt2");
  const std::string folder = edited(scratch, "gpt2");
  fs::remove(folder + "/model.safetensors");
  std::vector<NamedTensor> tensors = tensors_of(folder_of("gpt2"));
  // As in the files of GPT-2 itself: no prefix, and the causal mask of each layer.
  for (NamedTensor& t : tensors) t.name = t.name.substr(std::string("transformer.").size());
  tensors.push_back({"h.0.attn.bias", {1, 1, 2, 2}, {1, 0, 1, 1}});
  tensors.push_back({"h.0.attn.masked_bias", {1}, {-1e4F}});
  tensors.push_back({"lm_head.weight", {1}, {0}});
  nlohmann::json index = {{"weight_map", nlohmann::json::object()}};
  std::vector<NamedTensor> halves[2];
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    index["weight_map"][tensors[i].name] = i % 2 == 0 ? "a.safetensors" : "b.safetensors";
    halves[i % 2].push_back(tensors[i]);
  }
  write_tensors(folder + "/a.safetensors", halves[0]);
  write_tensors(folder + "/b.safetensors", halves[1]);
  std::ofstream(folder + "/model.safetensors.index.json") << index;
  CHECK(worst(load_checkpoint<double>(folder).model.logits(e.tokens, 1), e.logits) < 4e-6);
}

TEST_CASE("of a multimodal folder the text part is a model") {
  const Scratch scratch;
  const Expected e = expected("gemma3");
  const std::string folder = edited(scratch, "gemma3");
  nlohmann::json config = {{"model_type", "gemma3"},
                           {"text_config", golden("families/gemma3/config.json")},
                           {"vision_config", {{"hidden_size", 12}}}};
  config["text_config"].erase("tie_word_embeddings");
  std::ofstream(folder + "/config.json") << config;
  const auto renamed = [&](const std::string& outer, const std::string& inner) {
    std::vector<NamedTensor> tensors = tensors_of(folder_of("gemma3"));
    for (NamedTensor& t : tensors) t.name = outer + inner + t.name.substr(std::string("model.").size());
    tensors.push_back({"vision_tower.encoder.layers.0.self_attn.q_proj.weight", {2, 1}, {1, 2}});
    tensors.push_back({"model.multi_modal_projector.mm_soft_emb_norm.weight", {1}, {1}});
    return tensors;
  };
  // As transformers 4.50 wrote them, and 5.
  for (const auto& [outer, inner] : {std::pair("language_model.", "model."), std::pair("model.", "language_model.")}) {
    write_tensors(folder + "/model.safetensors", renamed(outer, inner));
    const Checkpoint<double> read = load_checkpoint<double>(folder);
    CHECK(worst(read.model.logits(e.tokens, 1), e.logits) < 4e-6);
    CHECK(read.left_out == 2);
  }
  CHECK(!load_checkpoint<double>(folder_of("gemma3")).left_out);
  auto tensors = renamed("language_model.", "model.");
  tensors.push_back({"language_model.model.layers.6.x.weight", {1}, {0}});
  write_tensors(folder + "/model.safetensors", tensors);
  CHECK(load_refusal(folder).ends_with(
      "tensor language_model.model.layers.6.x.weight is extra: the config has no place for it."));
  // The head is tied or not by the whole model's config.
  config["tie_word_embeddings"] = false;
  std::ofstream(folder + "/config.json") << config;
  CHECK(load_refusal(folder).ends_with("tensor lm_head.weight is missing."));
  config["text_config"]["model_type"] = "gemma3n_text";
  std::ofstream(folder + "/config.json") << config;
  CHECK(load_refusal(folder).find(folder + "/config.json: text_config: model_type 'gemma3n_text' is not known") !=
        std::string::npos);
}

TEST_CASE("multimodal configs of Gemma 3 leave out what its class says") {
  const Scratch scratch;
  const TransformerConfig c = read_config(scratch.file(R"({"model_type": "gemma3", "text_config": {
      "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
      "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}})",
                                                       "config.json"))
                                  .config;
  CHECK(c.vocab_size == 262208);
  CHECK(c.n_heads == 8);
  CHECK(c.n_kv_heads == 4);
  CHECK(c.head_dim == 256);
  CHECK(c.max_position_embeddings == 131072);
  CHECK(c.tied_head);
  CHECK(c.rope.factor == 8);
  CHECK(c.local_window == 1024);
}

TEST_CASE("Gemma's scale of token vectors is a number of the weights' type") {
  const Scratch scratch;
  const std::string folder = edited(scratch, "gemma3");
  std::vector<SafetensorsBytes> entries;
  std::vector<std::vector<std::uint16_t>> halves;
  const std::vector<NamedTensor> tensors = tensors_of(folder_of("gemma3"));
  for (const NamedTensor& t : tensors) {
    std::vector<std::uint16_t>& to = halves.emplace_back();
    for (float v : t.values) to.push_back(to_bf16_bits(static_cast<double>(v)));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    entries.push_back({tensors[i].name, "BF16", tensors[i].shape, std::as_bytes(std::span(halves[i]))});
  }
  write_safetensors(folder + "/model.safetensors", entries, {{"format", "pt"}});
  CHECK(load_checkpoint<double>(folder).model.config().embedding_scale == 4.46875);  // sqrt(20) = 4.4721...
}

TEST_CASE("what is no model of these families is refused by name") {
  const Scratch scratch;
  CHECK(load_refusal(edited(scratch, "qwen2", {{"model_type", "rwkv"}}))
            .ends_with("model_type 'rwkv' is not known; poslab runs llama, mistral, qwen2, qwen3, gemma3_text, "
                       "gpt2, gpt_neox, bloom, mpt, ernie4_5, poslab."));
  CHECK(load_refusal(edited(scratch, "qwen2", {{"hidden_act", "relu"}})).find("hidden_act 'relu'") !=
        std::string::npos);
  CHECK(load_refusal(edited(scratch, "qwen2", {{"num_hidden_layers", 3}})).find("model.layers.2.") !=
        std::string::npos);
  CHECK(load_refusal(edited(scratch, "qwen2", {{"num_hidden_layers", 1}})).find("is extra") != std::string::npos);
  CHECK(load_refusal(edited(scratch, "qwen2", {{"intermediate_size", 44}}))
            .ends_with("has the shape 40 x 24 but the config needs 44 x 24."));
  CHECK(load_refusal(edited(scratch, "gemma3", {{"final_logit_softcapping", 30.0}}))
            .ends_with("final_logit_softcapping is not supported."));
  CHECK(load_refusal(edited(scratch, "bloom", {{"apply_residual_connection_post_layernorm", true}}))
            .ends_with("apply_residual_connection_post_layernorm true is not supported."));
  CHECK(load_refusal(edited(scratch, "mpt", {{"attn_config", {{"alibi", false}}}})).find("alibi") != std::string::npos);
  const std::string pickle = edited(scratch, "mpt");
  fs::rename(pickle + "/model.safetensors", pickle + "/pytorch_model.bin");
  CHECK(load_refusal(pickle).find("pytorch_model.bin") != std::string::npos);
  const std::string dangling = edited(scratch, "qwen3");
  fs::remove(dangling + "/model.safetensors");
  fs::create_symlink("nowhere", dangling + "/model.safetensors");
  CHECK(load_refusal(dangling).find("[read_safetensors]") == 0);
}

TEST_CASE("weights that are no numbers, and sizes past every model, are refused by name") {
  const Scratch scratch;
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    const std::string folder = edited(scratch, "qwen2");
    std::vector<NamedTensor> tensors = tensors_of(folder);
    const auto norm = std::find_if(tensors.begin(), tensors.end(),
                                   [](const NamedTensor& t) { return t.name == "model.norm.weight"; });
    norm->values[3] = wrong;
    write_tensors(folder + "/model.safetensors", tensors);
    const std::string said = load_refusal(folder);
    CHECK(said.find("tensor model.norm.weight holds ") != std::string::npos);
    CHECK(said.ends_with(std::isnan(wrong) ? "nan, which is no weight." : "-inf, which is no weight."));

    const std::string file = folder_of("qwen2") + "/model.gguf";
    const GgufFile gguf(file);
    const auto values = gguf.tensor("output_norm.weight").bytes;
    std::ifstream in(file, std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(in), {});
    const auto at = bytes.find(std::string(reinterpret_cast<const char*>(values.data()), values.size()));
    REQUIRE(at != std::string::npos);
    bytes.replace(at + 12, 4, GgufBytes::raw(wrong));
    CHECK(load_refusal(scratch.file(bytes, "nan.gguf")).find("tensor output_norm.weight holds ") != std::string::npos);
  }
  CHECK(load_refusal(edited(scratch, "qwen2", {{"vocab_size", std::uint64_t{1} << 63}}))
            .ends_with("vocab_size is 9223372036854775808, too large."));
  CHECK(load_refusal(edited(scratch, "qwen2", {{"num_key_value_heads", std::int64_t{1} << 62}}))
            .ends_with("num_key_value_heads must be 1 .. 1000000000 but is 4611686018427387904."));
  // A list of layers of that length is never made.
  for (const char* name : {"gemma3", "qwen2_sliding"}) {
    CHECK(load_refusal(edited(scratch, name, {{"layer_types", nullptr}, {"num_hidden_layers", 900'000'000}})) ==
          "[transformer] n_layers must be 1 .. 1024 but got 900000000.");
  }
}

TEST_CASE("GGUF files of other models, and such as do not fit their keys, are refused by name") {
  const Scratch scratch;
  const auto sizes = [](const std::string& architecture) {
    GgufBytes bytes;
    bytes.string("general.architecture", architecture);
    for (const auto& [key, value] :
         {std::pair("context_length", 32U), std::pair("embedding_length", 16U), std::pair("block_count", 1U),
          std::pair("attention.head_count", 2U), std::pair("feed_forward_length", 24U)}) {
      bytes.u32(architecture + "." + key, value);
    }
    bytes.f32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5F);
    return bytes;
  };
  const auto refusal_of = [&](GgufBytes bytes) { return load_refusal(scratch.file(bytes.bytes(), "a.gguf")); };
  CHECK(refusal_of(sizes("phi3"))
            .ends_with("the architecture phi3 is not run; llama, qwen2, qwen3, gemma3, gpt2, "
                       "gptneox, bloom, mpt, ernie4_5 are."));
  CHECK(refusal_of(sizes("rwkv6")).find("the architecture rwkv6 is not known") != std::string::npos);
  CHECK(refusal_of(sizes("llama")).find("token_embd.weight") != std::string::npos);
  CHECK(refusal_of(sizes("llama").floats("token_embd.weight", {8, 4}, std::vector<float>(32)))
            .ends_with("tensor token_embd.weight has the shape 4 x 8 but the config needs 4 x 16."));
  CHECK(refusal_of(sizes("llama").floats("token_embd.weight", {16, 4}, std::vector<float>(64)))
            .ends_with("tensor blk.0.attn_norm.weight is missing."));
  CHECK(refusal_of(
            sizes("llama").u32("llama.expert_count", 8).floats("token_embd.weight", {16, 4}, std::vector<float>(64)))
            .ends_with("mixtures of experts are not supported."));
  CHECK(load_refusal(scratch.path("nowhere.gguf")).find("nowhere.gguf") != std::string::npos);
}

TEST_CASE("a model with parts that have no gradient says so") {
  Transformer<double> model = std::move(load_checkpoint<double>(folder_of("qwen3")).model);
  std::vector<double> gradient(model.values().size());
  const std::vector<std::int64_t> tokens = {1, 2, 3};
  CHECK_THROWS_WITH_AS(model.loss_and_gradient(tokens, tokens, 1, gradient, 1),
                       "[transformer] a model with norms of queries and keys runs but has no gradient here.",
                       std::invalid_argument);
  const Scratch scratch;
  CHECK_THROWS_WITH_AS(CheckpointFolder(scratch.path("m")).save<double>(model, {}, nullptr),
                       "[checkpoint] a model with norms of queries and keys runs but is not saved.",
                       std::invalid_argument);
}
