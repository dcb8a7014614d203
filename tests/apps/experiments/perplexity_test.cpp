#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "golden.h"
#include "poslab/core/random.h"
#include "poslab/models/checkpoint.h"
#include "poslab/models/evaluate.h"
#include "poslab/models/tasks.h"
#include "poslab/models/trainer.h"
#include "poslab/tokenizers/tokenizer.h"
#include "run_experiment.h"
#include "scratch.h"
#include "shared_files.h"
#include "small_transformer.h"

using namespace poslab;
using Integers = std::vector<std::int64_t>;

namespace {

TransformerConfig tiny(PositionEncoding encoding) {
  return small_transformer(task_vocab_size(Task::passkey), encoding, 16);
}

// A folder with a model whose predictions differ from each other, and the model.
Transformer<float> save_model(const std::string& folder, PositionEncoding encoding, const CheckpointNotes& notes = {}) {
  Transformer<float> model = new_model(tiny(encoding), 3);
  for (float& value : model.values()) value *= 10;
  CheckpointFolder(folder).save<float>(model, notes, nullptr);
  return model;
}

// 200 tokens below 25 as a .npy of int32.
std::string save_tokens(const Scratch& scratch, Integers& tokens) {
  Generator generator(4);
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (200,), }";
  header.resize(117, ' ');
  std::string bytes("\x93NUMPY\x01\x00\x76\x00", 10);
  bytes += header + "\n";
  for (int i = 0; i < 200; ++i) {
    tokens.push_back(generator.integer(0, 25));
    const auto token = static_cast<std::int32_t>(tokens.back());
    bytes.append(reinterpret_cast<const char*>(&token), 4);
  }
  return scratch.file(bytes, "tokens.npy");
}

// Mean nll of targets [b + from, b + to) of the windows that begin at b, by one forward pass per window.
double mean_by_hand(const Transformer<float>& model, const Integers& tokens, const Integers& begins,
                    std::int64_t length, std::int64_t from, std::int64_t to, const ForwardOptions& options = {}) {
  double sum = 0;
  for (std::int64_t b : begins) {
    const Integers context(tokens.begin() + b, tokens.begin() + b + length);
    const std::vector<float> logits = model.logits(context, 1, options);
    for (std::int64_t i = from; i < to; ++i) {
      const float* row = logits.data() + i * 25;
      double total = 0;
      for (int k = 0; k < 25; ++k) total += std::exp(static_cast<double>(row[k]));
      sum += std::log(total) - static_cast<double>(row[tokens[static_cast<std::size_t>(b + i + 1)]]);
    }
  }
  return sum / static_cast<double>(std::ssize(begins) * (to - from));
}

}  // namespace

TEST_CASE("rows are the means that single passes give, beside the control of the trained length") {
  const Scratch scratch;
  const std::string folder = scratch.path("model");
  const auto model = save_model(folder, PositionEncoding("rope"));
  Integers tokens;
  const std::string path = save_tokens(scratch, tokens);
  const auto ran = run_experiment("perplexity",
                                  {{"model", folder},
                                   {"tokens", path},
                                   {"seq_len", Integers{16, 64}},
                                   {"buckets", Integers{0, 32, 64}},
                                   {"rope_type", std::string("linear")},
                                   {"factor", 2.0}},
                                  2);
  REQUIRE(ran.report.rows.count == 6);
  ForwardOptions halved;
  halved.rope = unscaled_frequencies(model.config());
  for (double& w : halved.rope->inv_freq) w /= 2;
  const Integers at_16 = {0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176}, at_64 = {0, 64, 128};
  // One bucket of 16 positions, then its control: the same chunks, unscaled.
  CHECK(ran.row<std::int64_t>(0, "tokens") == 192);
  CHECK(ran.row<double>(0, "mean_nll") ==
        doctest::Approx(mean_by_hand(model, tokens, at_16, 16, 0, 16, halved)).epsilon(1e-5));
  CHECK(ran.row<double>(1, "mean_nll") == doctest::Approx(mean_by_hand(model, tokens, at_16, 16, 0, 16)).epsilon(1e-5));
  // Buckets 0-31 and 32-63 of three chunks; the edge at 64 opens none.
  CHECK(ran.row<std::int64_t>(3, "position_first") == 32);
  CHECK(ran.row<std::int64_t>(3, "position_last") == 63);
  CHECK(ran.row<std::int64_t>(3, "tokens") == 96);
  CHECK_FALSE(ran.row<bool>(3, "control"));
  const double late = mean_by_hand(model, tokens, at_64, 64, 32, 64, halved);
  CHECK(ran.row<double>(3, "mean_nll") == doctest::Approx(late).epsilon(1e-5));
  CHECK(ran.row<double>(3, "perplexity") == doctest::Approx(std::exp(late)).epsilon(1e-5));
  // The control of that bucket: the chunks of 16 that cover positions 32 .. 63 of each 64.
  CHECK(ran.row<bool>(5, "control"));
  CHECK(ran.row<double>(5, "mean_nll") ==
        doctest::Approx(mean_by_hand(model, tokens, {32, 48, 96, 112, 160, 176}, 16, 0, 16)).epsilon(1e-5));
}

TEST_CASE("sliding and last score what they say, under a window of attention") {
  const Scratch scratch;
  const std::string folder = scratch.path("model");
  const auto model = save_model(folder, PositionEncoding("alibi"));
  Integers tokens;
  const std::string path = save_tokens(scratch, tokens);
  ForwardOptions narrow;
  narrow.attention_window = 5;
  const Settings common = {{"model", folder},
                           {"tokens", path},
                           {"seq_len", Integers{40}},
                           {"buckets", Integers{0, 30}},
                           {"stride", std::int64_t{10}},
                           {"attention_window", std::int64_t{5}},
                           {"eval_tokens", std::int64_t{60}}};
  for (const char* mode : {"sliding", "last"}) {
    CAPTURE(mode);
    Settings settings = common;
    settings.push_back({"mode", std::string(mode)});
    const auto ran = run_experiment("perplexity", settings);
    const bool sliding = mode == std::string("sliding");
    REQUIRE(ran.report.rows.count == (sliding ? 4 : 2));
    if (sliding) {
      CHECK(ran.row<double>(0, "mean_nll") ==
            doctest::Approx(mean_by_hand(model, tokens, {0}, 40, 0, 30, narrow)).epsilon(1e-5));
    }
    CHECK(ran.row<std::int64_t>(sliding ? 1 : 0, "tokens") == 30);
    CHECK(ran.row<double>(sliding ? 1 : 0, "mean_nll") ==
          doctest::Approx(mean_by_hand(model, tokens, {0, 10, 20}, 40, 30, 40, narrow)).epsilon(1e-5));
  }
}

TEST_CASE("a learned table refuses what lies past its end, and the control stands in") {
  const Scratch scratch;
  const std::string folder = scratch.path("model");
  const auto model = save_model(folder, PositionEncoding("learned"));
  Integers tokens;
  const std::string path = save_tokens(scratch, tokens);
  const auto ran = run_experiment("perplexity", {{"model", folder}, {"tokens", path}, {"seq_len", Integers{16, 32}}});
  REQUIRE(ran.report.rows.count == 4);
  CHECK(ran.row<std::string>(2, "note") == "refused: the learned table ends at 16");
  CHECK(ran.row_is_null(2, "mean_nll"));
  CHECK(ran.row<std::int64_t>(2, "tokens") == 0);
  CHECK(ran.row<bool>(3, "control"));
  CHECK(ran.row<double>(3, "mean_nll") ==
        doctest::Approx(mean_by_hand(model, tokens, {0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176}, 16, 0, 16))
            .epsilon(1e-5));
}

TEST_CASE("bad requests are named") {
  const Scratch scratch;
  const std::string folder = scratch.path("model");
  save_model(folder, PositionEncoding("alibi"), {{"task", "passkey"}});
  Integers tokens;
  const std::string path = save_tokens(scratch, tokens);
  const Settings model = {{"model", folder}};
  const auto with = [&](Settings more) {
    more.insert(more.begin(), model.begin(), model.end());
    return refusal("perplexity", more);
  };
  CHECK(with({{"tokens", path}, {"seq_len", Integers{200}}}) ==
        "[perplexity] seq_len 200 needs 201 tokens, one more to predict, but the text has 200.");
  CHECK(with({{"tokens", path}, {"seq_len", Integers{INT64_MAX}}}) ==
        "[perplexity] seq_len must be 1 .. 1073741824 but got 9223372036854775807.");
  CHECK(with({{"tokens", path}, {"seq_len", Integers{64}}, {"buckets", Integers{64, 99}}}) ==
        "[perplexity] no token that is scored falls into any of the buckets.");
  CHECK(with({{"seq_len", Integers{64, 64}}}) == "[perplexity] seq_len must ascend but 64 follows 64.");
  CHECK(with({{"mode", std::string("sliding")}}) ==
        "[perplexity] mode sliding needs a running text; the texts of a task stand alone.");
  CHECK(with({{"rope_type", std::string("yarn")}}) ==
        "[rope] the model tells positions apart by alibi, so there is no RoPE to scale.");
  CHECK(with({{"task", std::string("parity")}}) == "[text] task parity has 2 tokens but the model 25.");
  CHECK(with({{"tokens", path}, {"task", std::string("passkey")}}) ==
        "[text] tokens, text and task exclude each other: give one.");
  CHECK(with({{"text", path}}).find(" has no vocabulary that is read here; give it tokens as a .npy") !=
        std::string::npos);
  CHECK(refusal("perplexity", {{"head_dim", std::int64_t{4}}}) == "[rope] head_dim 4 is not the model's, which is 16.");
}

TEST_CASE("a sentencepiece model beside the weights reads a text") {
  const Scratch scratch;
  const std::string folder = scratch.path("model");
  TransformerConfig config;
  config.vocab_size = 400;
  config.d_model = 16;
  config.n_layers = 1;
  config.n_heads = config.n_kv_heads = 2;
  config.head_dim = 8;
  config.d_ff = 16;
  config.max_position_embeddings = 16;
  config.rope = plain_rope(config.head_dim);
  CheckpointFolder(folder).save<float>(new_model(config, 0), {}, nullptr);
  std::filesystem::copy(golden_path("tokenizers/model_bpe.model"), folder + "/tokenizer.model");
  std::string words;
  for (int i = 0; i < 40; ++i) words += "positions and rotations ";
  const std::string text = scratch.file(words, "a.txt");
  const auto tokens = Tokenizer::from_sentencepiece(folder + "/tokenizer.model").encode(words);
  const auto ran = run_experiment("perplexity", {{"model", folder}, {"text", text}, {"seq_len", Integers{16}}});
  CHECK(ran.summary<std::int64_t>("text_length") == std::ssize(tokens));  // with the token that starts a text
}

// The project ships none of these models.
TEST_CASE("pretrained models lose by position what an independent forward pass says") {
  const auto reference = golden("pretrained_loss_by_position.json");
  struct Method {
    std::string name;
    Settings settings;
  };
  for (const std::string model : {"stories260K", "babyllama105"}) {
    const auto found = shared_file("models/" + model);
    if (!found) continue;
    const std::filesystem::path folder(*found);
    const bool stories = model == "stories260K";
    const std::int64_t trained = stories ? 512 : 256;
    const std::string window = "plain, window " + std::to_string(trained);
    for (const auto& [name, settings] :
         {Method{"plain RoPE", {}}, Method{"PI s=4", {{"rope_type", std::string("linear")}, {"factor", 4.0}}},
          Method{"NTK s=4", {{"rope_type", std::string("ntk")}, {"factor", 4.0}}},
          Method{"YaRN s=4 (code ramp)", {{"rope_type", std::string("yarn")}, {"factor", 4.0}}},
          Method{window, {{"attention_window", trained}}}}) {
      if (stories && !name.starts_with("YaRN")) continue;  // the larger one takes its time
      CAPTURE(model);
      CAPTURE(name);
      const auto& expected = reference[model][name];
      Integers edges;
      for (const auto& [range, value] : expected.items()) edges.push_back(std::stoll(range));
      std::ranges::sort(edges);
      Settings all = {{"model", (stories ? folder / "stories260K.gguf" : folder).string()},
                      {"tokens", (folder / "tokens.npy").string()},
                      {"seq_len", Integers{stories ? 2048 : 1024}},
                      {"buckets", edges}};
      all.insert(all.end(), settings.begin(), settings.end());
      const auto ran = run_experiment("perplexity", all, 2);
      REQUIRE(ran.report.rows.count == 2 * std::ssize(edges));
      for (std::int64_t i = 0; i < std::ssize(edges); ++i) {
        const std::string range = std::to_string(ran.row<std::int64_t>(i, "position_first")) + "-" +
                                  std::to_string(ran.row<std::int64_t>(i, "position_last"));
        CAPTURE(range);
        CHECK(std::abs(ran.row<double>(i, "mean_nll") - expected.at(range).get<double>()) < 2e-3);
      }
    }
  }
}

TEST_CASE("perplexity names a model that it cannot run, and one whose numbers overflow") {
  const Scratch scratch;
  Integers tokens;
  const std::string file = save_tokens(scratch, tokens);
  const auto said = [&](const std::string& model) {
    return refusal("perplexity", {{"model", model}, {"tokens", file}, {"seq_len", Integers{8}}});
  };
  CHECK(said(scratch.path("nowhere")) == "[model] there is no file or folder '" + scratch.path("nowhere") + "'.");
  CHECK(said("llama-2-7b") == "[model] the preset llama-2-7b has no weights: give a folder or a GGUF file.");
  CHECK(said("") == "[model] there is no file or folder ''.");
  const std::string folder = scratch.path("models");
  std::filesystem::create_directory(folder);
  CHECK(said(folder) == "[model] the folder " + folder + " holds no config.json and no GGUF file.");
  for (const char* name : {"models/a.gguf", "models/b.gguf"}) scratch.file("GGUF", name);
  CHECK(said(folder) == "[model] the folder " + folder + " holds 2 GGUF files and no config.json: name one of them.");

  Transformer<float> model = new_model(tiny(PositionEncoding("rope")), 3);
  for (float& value : model.values()) value = std::abs(value) + 1e30F;
  CheckpointFolder(scratch.path("large")).save<float>(model, {}, nullptr);
  const auto ran =
      run_experiment("perplexity", {{"model", scratch.path("large")}, {"tokens", file}, {"seq_len", Integers{8}}});
  CHECK(std::isnan(ran.summary<std::vector<double>>("length_nll")[0]));
  CHECK(ran.report.conclusion.find("8 tokens: no number, since the model's own overflow") != std::string::npos);
}

TEST_CASE("points of a sweep load the model and score the control once: its folder may go after the first") {
  const Scratch scratch;
  const std::string folder = scratch.path("model");
  save_model(folder, PositionEncoding("rope"));
  Integers tokens;
  const std::string path = save_tokens(scratch, tokens);
  const Experiment& experiment = *find_experiment("perplexity");
  RunContext context;
  const auto nll = [&](const std::string& scaling) {
    Record params;
    for (const FieldSpec& field : experiment.params) {
      params.push_back(field.name == "model"       ? Value(folder)
                       : field.name == "tokens"    ? Value(path)
                       : field.name == "rope_type" ? Value(scaling)
                       : field.name == "factor"    ? Value(2.0)
                       : field.name == "seq_len"   ? Value(Integers{32})
                                                   : field.fallback);
    }
    const RanExperiment ran{experiment, experiment.run(params, context)};
    return std::pair(ran.summary<std::vector<double>>("length_nll")[0],
                     ran.summary<std::vector<double>>("control_nll")[0]);
  };
  const auto alone = nll("linear");
  nll("ntk");
  std::filesystem::remove_all(folder);
  CHECK(nll("linear") == alone);
  CHECK(nll("ntk").first != alone.first);
  context.prepared = std::make_shared<Prepared>();
  CHECK_THROWS(nll("linear"));
}
