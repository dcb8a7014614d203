#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "poslab/core/interrupt.h"
#include "poslab/models/checkpoint.h"
#include "poslab/models/corpus.h"
#include "poslab/models/trainer.h"
#include "poslab/rope/scalings.h"
#include "run_experiment.h"
#include "scratch.h"

using namespace poslab;

namespace {

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Small enough for a moment.
Settings quick(Settings more) {
  Settings settings = {{"d_model", std::int64_t{16}}, {"n_layers", std::int64_t{1}},   {"n_heads", std::int64_t{2}},
                       {"steps", std::int64_t{20}},   {"batch_size", std::int64_t{4}}, {"seq_len", std::int64_t{16}}};
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

std::string failure(const Settings& settings) {
  try {
    run_experiment("train", settings);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

std::string sentence(std::int64_t n) {
  std::string text;
  while (static_cast<std::int64_t>(text.size()) < n) text += "the quick brown fox jumps over the lazy dög. ";
  return text;
}

}  // namespace

TEST_CASE("training learns the task, the same for any number of threads") {
  const Settings settings = {{"task", std::string("copy")},
                             {"steps", std::int64_t{150}},
                             {"seq_len", std::int64_t{24}},
                             {"d_model", std::int64_t{32}},
                             {"learning_rate", 5e-3}};
  const RanExperiment one = run_experiment("train", settings, 1), two = run_experiment("train", settings, 2);
  CHECK(one.summary<double>("first_loss") == doctest::Approx(one.summary<double>("chance_loss")).epsilon(0.1));
  CHECK(one.summary<double>("final_loss") < 0.5 * one.summary<double>("first_loss"));
  CHECK(one.summary<double>("final_loss") == two.summary<double>("final_loss"));
  CHECK(one.report.rows.count == 16);
  CHECK(one.row<std::int64_t>(0, "step") == 1);
  CHECK(one.row<std::int64_t>(15, "step") == 150);
}

TEST_CASE("every encoding and task trains") {
  for (const auto& spec : find_experiment("train")->params) {
    if (spec.name != "encoding" && spec.name != "task") continue;
    for (const std::string& word : spec.words) {
      CAPTURE(word);
      CHECK(std::isfinite(run_experiment("train", quick({{spec.name, word}})).summary<double>("final_loss")));
    }
  }
}

TEST_CASE("an interrupted run that is continued gives the same bytes") {
  const Scratch scratch;
  const std::string text = scratch.file(sentence(600), "text.txt");
  for (const Settings& source : {Settings{{"task", std::string("reverse")}}, Settings{{"text", text}}}) {
    const auto settings = [&](const std::string& save) {
      Settings all = quick({{"save_model", scratch.path(save)}});
      all.insert(all.end(), source.begin(), source.end());
      return all;
    };
    run_experiment("train", settings("whole"));
    // The same run, stopped after its seventh step.
    {
      const Checkpoint<float> whole = load_checkpoint<float>(scratch.path("whole"));
      Transformer<float> model = new_model(whole.model.config(), 0);
      std::unique_ptr<BatchSource> batches;
      if (source[0].first == "task") {
        batches = task_source(Task::reverse);
      } else {
        auto tokens = Vocabulary::from_notes(whole.notes)->encode(sentence(600));
        tokens.resize(static_cast<std::size_t>(0.9 * static_cast<double>(tokens.size())));
        batches = text_source(std::move(tokens), whole.model.config().vocab_size, 16);
      }
      TrainOptions options;
      options.steps = 20;
      options.batch_size = 4;
      options.seq_len = 16;
      options.learning_rate = 2e-3;
      options.warmup = 2;
      options.save = scratch.path("part");
      const TrainResult part = train(model, *batches, options, whole.notes, {}, [](const TrainedStep& step) {
        if (step.step == 7) interrupt_requested() = true;
      });
      interrupt_requested() = false;
      CHECK(part.interrupted);
      CHECK(part.history.size() == 7);
    }
    Settings again = settings("part");
    again.emplace_back("continue_from", scratch.path("part"));
    const RanExperiment continued = run_experiment("train", again);
    CHECK(continued.summary<std::int64_t>("steps_done") == 20);
    for (const char* file : {"config.json", "model.safetensors", "training.safetensors"}) {
      CAPTURE(file);
      CHECK(contents(scratch.path("whole") + "/" + file) == contents(scratch.path("part") + "/" + file));
    }
    Settings other = again;
    other.emplace_back("seed", std::int64_t{1});
    CHECK(failure(other).find("was trained with seed 0, not 1") != std::string::npos);
  }
}

TEST_CASE("a checkpoint is fine-tuned for longer texts") {
  const Scratch scratch;
  run_experiment("train", quick({{"save_model", scratch.path("short")}}));
  run_experiment("train", quick({{"init", scratch.path("short")},
                                 {"save_model", scratch.path("long")},
                                 {"seq_len", std::int64_t{64}},
                                 {"rope_type", std::string("yarn")},
                                 {"steps", std::int64_t{2}}}));
  const TransformerConfig config = load_checkpoint<float>(scratch.path("long")).model.config();
  CHECK(config.rope.rope_type == yarn_scaling);
  CHECK(config.rope.factor == 4.0);
  CHECK(config.rope.original_max_position_embeddings == 16.0);
  CHECK(config.max_position_embeddings == 64);
  run_experiment("train", quick({{"encoding", std::string("learned")}, {"save_model", scratch.path("seats")}}));
  CHECK(failure(quick({{"init", scratch.path("seats")}, {"seq_len", std::int64_t{17}}})).find("16") !=
        std::string::npos);
  CHECK(failure(quick({{"init", scratch.path("short")}, {"d_model", std::int64_t{32}}})) ==
        "[train] d_model is 32 but the checkpoint's is 16.");
}

TEST_CASE("a loss that is no number stops the run at its step, and no such model is saved") {
  const Scratch scratch;
  const std::string folder = scratch.path("m");
  // Every step multiplies the matrices by -999 until their squares overflow.
  const Settings growing = {{"save_model", folder}, {"save_every", std::int64_t{1}}, {"learning_rate", 1e-3},
                            {"weight_decay", 1e6},  {"warmup", std::int64_t{0}},     {"steps", std::int64_t{99}}};
  const std::string said = failure(quick(growing));
  CAPTURE(said);
  const auto number_behind = [&](const std::string& words) {
    const std::size_t at = said.find(words);
    REQUIRE(at != std::string::npos);
    return std::stoll(said.substr(at + words.size()));
  };
  const std::int64_t failed = number_behind("is not finite at step ");
  CHECK(failed > 3);
  // The step before had a finite loss, but its update is what broke the model.
  CHECK(number_behind(folder + " holds the model after step ") == failed - 2);
  CHECK(load_training_state<float>(folder, load_checkpoint<float>(folder).model.layout()).steps == failed - 2);
  const auto loss = run_experiment("perplexity", {{"model", folder}, {"seq_len", std::vector<std::int64_t>{16}}});
  CHECK(std::isfinite(loss.row<double>(0, "mean_nll")));

  // A run that breaks in its very last step, or before its first checkpoint, leaves the folder alone.
  const std::string before = contents(folder + "/model.safetensors");
  for (const std::int64_t steps : {failed - 1, failed, failed + 1}) {
    CAPTURE(steps);
    Settings again = quick(growing);
    again.emplace_back("steps", steps);
    again.emplace_back("save_every", std::int64_t{0});
    const std::string end = failure(again);
    CHECK(end.find("is not finite") != std::string::npos);
    CHECK(end.find(folder + " is as it was") != std::string::npos);
    CHECK(contents(folder + "/model.safetensors") == before);
  }
  CHECK(failure(quick({{"learning_rate", 1e30}, {"weight_decay", 0.0}})).find("nothing was saved") !=
        std::string::npos);
}

TEST_CASE("texts and settings that cannot be trained on are refused") {
  const Scratch scratch;
  CHECK(failure(quick({{"text", scratch.file("", "empty.txt")}})).find("is empty") != std::string::npos);
  CHECK(failure(quick({{"text", scratch.file("short", "short.txt")}})).find("too short for seq_len 16") !=
        std::string::npos);
  CHECK(failure(quick({{"text", scratch.path("nowhere.txt")}})).find("No such file") != std::string::npos);
  CHECK(failure(quick({{"text", scratch.file("\xff\xfe" + sentence(99), "raw.txt")}}))
            .find("not valid UTF-8 at byte 0") != std::string::npos);
  CHECK(failure(quick({{"text", scratch.path("raw.txt")}, {"text_unit", std::string("bytes")}})).empty());
  CHECK(failure(quick({{"text", std::string("a")}, {"task", std::string("copy")}})).find("exclude each other") !=
        std::string::npos);
  CHECK(failure(quick({{"rope_type", std::string("yarn")}, {"encoding", std::string("alibi")}}))
            .find("rope_type needs an encoding that rotates, not alibi") != std::string::npos);
  CHECK(failure(quick({{"layout", std::string("half")}, {"encoding", std::string("t5")}})) ==
        "[train] layout needs an encoding that rotates, not t5.");
  CHECK(failure(quick({{"beta_fast", 3.0}})) == "[train] beta_fast needs rope_type.");
  CHECK(failure(quick({{"rope_type", std::string("yarn")}, {"beta_fast", 0.0}})) ==
        "[rope] beta_fast must be above 0 but got 0.");
  CHECK(failure(quick({{"rope_type", std::string("linear")}, {"factor", 0.5}})) ==
        "[rope] factor must be at least 1 but got 0.5.");
  CHECK(failure(quick({{"save_model", std::string()}})) == "[train] save_model must name a folder.");
  CHECK(failure(quick({{"batch_size", std::int64_t{1} << 20}, {"seq_len", std::int64_t{64}}}))
            .find("GB, and this machine has") != std::string::npos);
  CHECK(failure(quick({{"d_model", std::int64_t{18}}})) ==
        "[rope] rotary_dim must be even and 2 .. head_dim (9) but got 9.");
  CHECK(failure(quick({{"n_heads", std::int64_t{4}}, {"n_kv_heads", std::int64_t{3}}})) ==
        "[transformer] n_heads 4 is not a multiple of n_kv_heads 3.");
  CHECK(failure(quick({{"learning_rate", 0.0}})) == "[train] learning_rate must be above 0 but got 0.");
  CHECK(failure(quick({{"rope_type", std::string("ntk_by_parts")}, {"save_model", scratch.path("x")}}))
            .find("no name for ntk_by_parts") != std::string::npos);
  run_experiment("train",
                 quick({{"text", scratch.file(sentence(300), "text.txt")}, {"save_model", scratch.path("m")}}));
  CHECK(failure(quick({{"text", scratch.file("Z" + sentence(300), "other.txt")}, {"init", scratch.path("m")}}))
            .find("character 0 is U+005A") != std::string::npos);
  CHECK(failure(quick({{"init", scratch.path("m")}})) ==
        "[train] give text, tokens or task: the checkpoint was not trained on a task.");
  CHECK(failure(quick({{"init", scratch.path("m")}, {"task", std::string("copy")}}))
            .find("vocabulary of 17 tokens but the model of") != std::string::npos);
}

TEST_CASE("a checkpoint's task is the task of what starts from it") {
  const Scratch scratch;
  const std::string folder = scratch.path("m");
  run_experiment("train", quick({{"task", std::string("copy")}, {"save_model", folder}}));
  for (const char* from : {"init", "continue_from"}) {
    CHECK(run_experiment("train", quick({{from, folder}})).summary<std::int64_t>("vocab_size") == 17);
  }
}

TEST_CASE("every scaling and share of turning channels trains, and a continued run keeps what was asked of them") {
  const Scratch scratch;
  const std::string folder = scratch.path("m");
  const std::vector<double> ones = {1, 1, 1, 1}, longer = {1, 1.5, 2, 3};
  const Settings longrope = quick({{"rope_type", std::string("longrope")},
                                   {"short_factor", ones},
                                   {"long_factor", longer},
                                   {"original_max_position_embeddings", std::int64_t{8}},
                                   {"save_model", folder}});
  run_experiment("train", longrope);
  const TransformerConfig config = load_checkpoint<float>(folder).model.config();
  CHECK(config.rope.long_factor == longer);
  CHECK(config.rope.factor == 2.0);
  CHECK(config.max_position_embeddings == 16);
  Settings again = longrope;
  again.emplace_back("continue_from", folder);
  CHECK(failure(again).empty());
  const auto continued = [&](Settings more) {
    more.emplace_back("continue_from", folder);
    more.emplace_back("save_model", folder);
    return failure(quick(more));
  };
  CHECK(continued({}).empty());
  CHECK(continued({{"rope_type", std::string("yarn")}}) ==
        "[train] " + folder + " was trained with rope_type longrope, not yarn.");
  CHECK(continued({{"beta_fast", 3.0}}) == "[train] " + folder + " was trained without beta_fast, not with 3.");
  CHECK(continued({{"attention_window", std::int64_t{3}}}) ==
        "[train] attention_window is 3 but the checkpoint's is 0.");
  CHECK(continued({{"layout", std::string("interleaved")}}) == "[train] layout differs from the checkpoint's.");

  run_experiment("train", quick({{"partial_rotary_factor", 0.5}, {"save_model", scratch.path("part")}}));
  CHECK(load_checkpoint<float>(scratch.path("part")).model.config().rope.rotary_dim == 4);
  run_experiment("train", quick({{"rope_type", std::string("proportional")},
                                 {"partial_rotary_factor", 0.5},
                                 {"save_model", scratch.path("still")}}));
  CHECK(rope_frequencies(load_checkpoint<float>(scratch.path("still")).model.config().rope).inv_freq[2] == 0);
}

TEST_CASE("a sweep over all scalings leaves out what these parameters cannot have") {
  const Experiment* train = find_experiment("train");
  const auto left_out = [&](const Settings& settings) {
    Record params;
    for (const auto& spec : train->params) {
      const auto given = std::ranges::find(settings, spec.name, &Settings::value_type::first);
      params.push_back(given == settings.end() ? spec.fallback : given->second);
    }
    return train->excluded(params);
  };
  const auto type = [](const char* word) { return std::pair<std::string, Value>("rope_type", std::string(word)); };
  const std::vector<double> eight(8, 1.0);
  CHECK(left_out({type("yarn")}).empty());
  CHECK(left_out({type("longrope")}).find("longrope needs short_factor") != std::string::npos);
  CHECK(left_out({type("longrope"), {"short_factor", eight}, {"long_factor", eight}}).empty());
  CHECK(left_out({type("default"), {"encoding", std::string("alibi")}}).empty());
  CHECK(left_out({type("linear"), {"encoding", std::string("alibi")}}).find("needs an encoding that rotates") !=
        std::string::npos);
}
