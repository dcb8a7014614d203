#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "poslab/core/interrupt.h"
#include "poslab/models/checkpoint.h"
#include "poslab/models/corpus.h"
#include "poslab/models/trainer.h"
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
      Settings all = quick({{"save", scratch.path(save)}});
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
  run_experiment("train", quick({{"save", scratch.path("short")}}));
  run_experiment("train", quick({{"init", scratch.path("short")},
                                 {"save", scratch.path("long")},
                                 {"seq_len", std::int64_t{64}},
                                 {"rope_type", std::string("yarn")},
                                 {"steps", std::int64_t{2}}}));
  const TransformerConfig config = load_checkpoint<float>(scratch.path("long")).model.config();
  CHECK(config.rope.rope_type == RopeType::yarn);
  CHECK(config.rope.factor == 4.0);
  CHECK(config.rope.original_max_position_embeddings == 16.0);
  CHECK(config.max_position_embeddings == 64);
  run_experiment("train", quick({{"encoding", std::string("learned")}, {"save", scratch.path("seats")}}));
  CHECK(failure(quick({{"init", scratch.path("seats")}, {"seq_len", std::int64_t{17}}})).find("16") !=
        std::string::npos);
  CHECK(failure(quick({{"init", scratch.path("short")}, {"d_model", std::int64_t{32}}})) ==
        "[train] d_model is 32 but the checkpoint's is 16.");
}

TEST_CASE("a loss that is no number stops the run at its step and keeps the last checkpoint") {
  const Scratch scratch;
  const std::string folder = scratch.path("m");
  const std::string said = failure(quick({{"save", folder},
                                          {"save_every", std::int64_t{1}},
                                          {"learning_rate", 1e30},
                                          {"clip_norm", 0.0},
                                          {"warmup", std::int64_t{0}},
                                          {"weight_decay", 0.0}}));
  CHECK(said.find("is not finite at step 2") != std::string::npos);
  CHECK(said.find(folder + " holds the model after step 1") != std::string::npos);
  CHECK(load_training_state<float>(folder, load_checkpoint<float>(folder).model.layout()).steps == 1);
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
            .find("need encoding rope") != std::string::npos);
  CHECK(failure(quick({{"learning_rate", 0.0}})) == "[train] learning_rate must be above 0 but got 0.");
  CHECK(failure(quick({{"rope_type", std::string("ntk_by_parts")}, {"save", scratch.path("x")}}))
            .find("no name for ntk_by_parts") != std::string::npos);
  run_experiment("train", quick({{"text", scratch.file(sentence(300), "text.txt")}, {"save", scratch.path("m")}}));
  CHECK(failure(quick({{"text", scratch.file("Z" + sentence(300), "other.txt")}, {"init", scratch.path("m")}}))
            .find("character 0 is U+005A") != std::string::npos);
  CHECK(failure(quick({{"init", scratch.path("m")}})).find("vocabulary of 32 tokens but the model of") !=
        std::string::npos);
}
