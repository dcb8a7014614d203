#include "poslab/models/checkpoint.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "golden.h"
#include "poslab/formats/safetensors.h"
#include "poslab/rope/scalings.h"
#include "scratch.h"

using namespace poslab;
namespace fs = std::filesystem;

namespace {

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TransformerConfig tiny(PositionEncoding encoding, NormKind norm, MlpKind mlp, bool biases) {
  TransformerConfig c;
  c.vocab_size = 11;
  c.d_model = 16;
  c.n_layers = 2;
  c.n_heads = c.n_kv_heads = 2;
  c.head_dim = 8;
  c.d_ff = 24;
  c.max_position_embeddings = 20;
  c.rope = plain_rope(8, 500);
  c.norm = norm;
  c.mlp = mlp;
  c.set_biases(biases);
  c.encoding = encoding;
  return c;
}

template <class T>
std::string refused(const std::string& folder) {
  try {
    load_checkpoint<T>(folder);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("folders of Hugging Face's layout give their logits") {
  for (const char* name :
       {"rope_half", "rope_half_bf16", "rope_half_tied", "rope_half_permuted", "yarn", "alibi", "none"}) {
    CAPTURE(name);
    const auto json = golden(std::string("llama_tiny/llama_tiny_") + name + ".json");
    const Checkpoint<double> checkpoint = load_checkpoint<double>(golden_path(std::string("llama_tiny/") + name));
    std::vector<std::int64_t> tokens;
    for (const auto& row : json["tokens"]) {
      const auto text = row.get<std::vector<std::int64_t>>();
      tokens.insert(tokens.end(), text.begin(), text.end() - 1);
    }
    const auto logits = checkpoint.model.logits(tokens, json["B"]);
    const std::string bytes = contents(golden_path("llama_tiny/" + json["bin"].get<std::string>()));
    for (const auto& t : json["tensors"]) {
      if (t["name"] != "logits") continue;
      std::vector<double> golden_logits(logits.size());
      std::memcpy(golden_logits.data(), bytes.data() + t["offset_f64"].get<std::size_t>() * 8, logits.size() * 8);
      double worst = 0;
      for (std::size_t i = 0; i < logits.size(); ++i) {
        worst = std::max(worst, std::abs(logits[i] - golden_logits[i]) / std::max(1.0, std::abs(golden_logits[i])));
      }
      CHECK(worst <= 1e-12);
    }
  }
}

TEST_CASE("every kind of model comes back as it was saved") {
  const Scratch scratch;
  std::int64_t n = 0;
  for (const std::string_view word : PositionEncoding::words()) {
    const PositionEncoding encoding(word);
    for (const auto& [norm, mlp, biases] : {std::tuple(NormKind::rms_norm, MlpKind::swiglu, false),
                                            std::tuple(NormKind::layer_norm, MlpKind::gelu, true)}) {
      CAPTURE(word);
      TransformerConfig config = tiny(encoding, norm, mlp, biases);
      config.tied_head = n % 2 == 0;
      config.layout = n % 3 == 0 ? RopeLayout::interleaved : RopeLayout::half;
      if (encoding == PositionEncoding("rope") && biases) config.rope.rotary_dim = 4;
      Generator generator(n);
      const Transformer<float> model(config, generator);
      const std::string folder = scratch.path("m" + std::to_string(n++));
      CheckpointFolder(folder).save<float>(model, {{"vocabulary", "ab\n\""}}, nullptr);
      CHECK_FALSE(fs::exists(folder + ".partial"));
      CHECK_FALSE(fs::exists(folder + ".lock"));
      const Checkpoint<float> read = load_checkpoint<float>(folder);
      CHECK(read.notes == CheckpointNotes{{"vocabulary", "ab\n\""}});
      const std::vector<std::int64_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1};
      CHECK(read.model.logits(tokens, 1) == model.logits(tokens, 1));
      CHECK(model_family(read.model.config()) == model_family(config));
    }
  }
  CHECK(model_family(tiny(PositionEncoding("learned"), NormKind::layer_norm, MlpKind::gelu, true)) ==
        ModelFamily::gpt2);
  CHECK(model_family(tiny(PositionEncoding("rope"), NormKind::rms_norm, MlpKind::swiglu, false)) == ModelFamily::llama);
}

TEST_CASE("scaled frequencies come back as they were saved") {
  const Scratch scratch;
  for (RopeType type : std::vector<RopeType>{linear_scaling, ntk_scaling, dynamic_scaling, yarn_scaling, llama3_scaling,
                                             longrope_scaling, proportional_scaling}) {
    CAPTURE(to_word(type));
    TransformerConfig config = tiny(PositionEncoding("rope"), NormKind::rms_norm, MlpKind::swiglu, false);
    config.rope.rope_type = type;
    config.rope.factor = 4;
    config.rope.original_max_position_embeddings = type == dynamic_scaling ? 20 : 5;
    config.rope.max_position_embeddings = 20;
    config.rope.short_factor = config.rope.long_factor = {1, 1.5, 2, 3};
    config.rope.partial_rotary_factor = 0.5;
    const std::string path = scratch.file(config_json(config, {}, "float32"), "config.json");
    const RopeFrequencies saved = rope_frequencies(config.rope, 60),
                          read = rope_frequencies(read_config(path).config.rope, 60);
    CHECK(saved.inv_freq == read.inv_freq);
    CHECK(saved.attention_factor == read.attention_factor);
  }
  TransformerConfig config = tiny(PositionEncoding("rope"), NormKind::rms_norm, MlpKind::swiglu, false);
  config.rope.rope_type = ntk_by_parts_scaling;
  CHECK_THROWS_AS(config_json(config, {}, "float32"), std::invalid_argument);
}

TEST_CASE("GPT-2's linear maps are stored transposed, q, k and v side by side") {
  const Scratch scratch;
  const TransformerConfig config = tiny(PositionEncoding("learned"), NormKind::layer_norm, MlpKind::gelu, true);
  Generator generator(1);
  const Transformer<float> model(config, generator);
  CheckpointFolder(scratch.path("m")).save<float>(model, {}, nullptr);
  const SafetensorsFile file(scratch.path("m/model.safetensors"));
  const SafetensorsTensor* fused = file.find("transformer.h.1.attn.c_attn.weight");
  REQUIRE(fused);
  REQUIRE(fused->shape == std::vector<std::int64_t>{16, 48});
  std::vector<float> values(16 * 48);
  file.read<float>(*fused, values);
  const auto k = model.values("model.layers.1.self_attn.k_proj.weight");
  CHECK(values[3 * 48 + 16 + 5] == k[5 * 16 + 3]);
}

TEST_CASE("a checkpoint that does not fit its config is refused, naming the tensor") {
  const Scratch scratch;
  TransformerConfig config = tiny(PositionEncoding("rope"), NormKind::rms_norm, MlpKind::swiglu, false);
  Generator generator(1);
  const std::string folder = scratch.path("m"), config_path = folder + "/config.json",
                    model_path = folder + "/model.safetensors";
  CheckpointFolder(folder).save<float>(Transformer<float>(config, generator), {}, nullptr);
  const std::string good_config = contents(config_path), good_model = contents(model_path);
  const auto with_config = [&](const std::string& from, const std::string& to) {
    std::string text = good_config;
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
    std::ofstream(config_path) << text;
    return refused<float>(folder);
  };
  CHECK(with_config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3")
            .find("tensor model.layers.2.input_layernorm.weight is missing") != std::string::npos);
  CHECK(with_config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1")
            .find("tensor model.layers.1.input_layernorm.weight is extra") != std::string::npos);
  CHECK(with_config("\"intermediate_size\": 24", "\"intermediate_size\": 25")
            .find("gate_proj.weight has the shape 24 x 16 but the config needs 25 x 16") != std::string::npos);
  CHECK(with_config("\"hidden_size\": 16,", "").find("hidden_size is missing") != std::string::npos);
  CHECK(with_config("\"hidden_size\": 16,", "\"hidden_size\": 16.5,").find("hidden_size must be an integer") !=
        std::string::npos);
  CHECK(with_config("\"llama\"", "\"bert\"").find("model_type 'bert' is not known") != std::string::npos);
  std::ofstream(config_path) << good_config;
  std::ofstream(model_path) << good_model.substr(0, good_model.size() - 3);
  CHECK(refused<float>(folder).find("it is truncated") != std::string::npos);
  std::ofstream(model_path) << good_model;
  CHECK(refused<float>(folder).empty());
  CHECK_FALSE(refused<float>(scratch.path("nowhere")).empty());
}

TEST_CASE("a folder has one writer, and what fails leaves the old checkpoint") {
  const Scratch scratch;
  TransformerConfig config = tiny(PositionEncoding("rope"), NormKind::rms_norm, MlpKind::swiglu, false);
  Generator generator(1);
  const Transformer<float> model(config, generator);
  const std::string folder = scratch.path("m");
  {
    const CheckpointFolder first(folder);
    first.save<float>(model, {{"kept", "yes"}}, nullptr);
    CHECK_THROWS_WITH_AS(CheckpointFolder{folder}, ("cannot write " + folder + ": another run is writing it").c_str(),
                         std::runtime_error);
    // A leftover of a killed run is no obstacle, and a save that fails leaves the checkpoint.
    fs::create_directory(folder + ".partial");
    std::ofstream(folder + ".partial/config.json") << "half";
    config.rope.rope_type = ntk_by_parts_scaling;
    CHECK_THROWS_AS(first.save<float>(Transformer<float>(config), {}, nullptr), std::invalid_argument);
  }
  CHECK(load_checkpoint<float>(folder).notes.at("kept") == "yes");
  CHECK_THROWS_AS(CheckpointFolder{scratch.file("x", "file")}, std::runtime_error);
  fs::create_directory(scratch.path("other"));
  scratch.file("x", "other/thesis.txt");
  CHECK_THROWS_AS(CheckpointFolder{scratch.path("other")}, std::invalid_argument);
  CHECK_THROWS_AS(CheckpointFolder{scratch.path("no/such/parent")}, std::runtime_error);
}

TEST_CASE("the optimiser's state comes back") {
  const Scratch scratch;
  Generator generator(1);
  const Transformer<float> model(tiny(PositionEncoding("none"), NormKind::rms_norm, MlpKind::swiglu, false), generator);
  TrainingState<float> state;
  state.steps = 17;
  state.first_moment.assign(model.values().size(), 0.25f);
  state.second_moment.assign(model.values().size(), 1e-30f);
  state.run = {{"seed", "3"}};
  CheckpointFolder(scratch.path("m")).save<float>(model, {}, &state);
  const TrainingState<float> read = load_training_state<float>(scratch.path("m"), model.layout());
  CHECK(read.steps == 17);
  CHECK(read.first_moment == state.first_moment);
  CHECK(read.second_moment == state.second_moment);
  CHECK(read.run == state.run);
}
