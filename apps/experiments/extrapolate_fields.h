// What `extrapolate` takes and gives: the field lists of its parameters, summary and rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "poslab/core/fields.h"
#include "poslab/methods/list.h"
#include "poslab/models/tasks.h"
#include "poslab/rope/scaling.h"

namespace poslab::extrapolate_fields {

struct Params {
  std::vector<PositionEncoding> encodings = {PositionEncoding(rope_method()), PositionEncoding(alibi_method())};
  std::vector<std::int64_t> seeds = {0, 1};
  std::optional<Task> task;
  std::optional<FilePath> text;
  std::int64_t seq_len = 32;
  std::vector<std::int64_t> multiples = {1, 2, 4, 8};
  std::int64_t eval_tokens = 4096;
  std::int64_t d_model = 32, n_layers = 2, n_heads = 2, steps = 100, batch_size = 16;
  double learning_rate = 5e-3;
  std::vector<RopeType> extend_types;
  std::vector<std::int64_t> extend_steps = {0};
  std::int64_t extend_multiple = 4;
  std::optional<FilePath> save_study;
  MethodParams method;

  static void fields(auto& self, auto&& field) {
    field("encodings", self.encodings, "what tells positions apart, one model each");
    field("seeds", self.seeds, "a model per seed and encoding: the same batches for every encoding");
    field("task", self.task, "a built-in task; absent: passkey, unless text is given");
    field("text", self.text, "a text file, read as characters: nine tenths train, the last tenth evaluates");
    field("seq_len", self.seq_len, "length of training", "tokens");
    field("multiples", self.multiples, "how many times that length to evaluate at");
    field("eval_tokens", self.eval_tokens, "about how many tokens to evaluate on at each length", "tokens");
    renamed_from(field, "positions");
    field("d_model", self.d_model, "values of a token's vector", "channels");
    field("n_layers", self.n_layers, "layers");
    field("n_heads", self.n_heads, "attention heads");
    field("steps", self.steps, "steps of training");
    field("batch_size", self.batch_size, "texts per step");
    field("learning_rate", self.learning_rate, "the schedule's peak: linear warm-up, then a cosine to a tenth");
    field("extend_types", self.extend_types, "scalings to try on the trained RoPE models; empty: none");
    field("extend_steps", self.extend_steps,
          "steps of further training with each scaling, 0: none, at the longer length and the same tokens per step");
    field("extend_multiple", self.extend_multiple, "how many times the length the scalings aim at");
    field("save_study", self.save_study,
          "folder that keeps what is finished, by encoding and seed: the same study goes on from it; absent: none");
    renamed_from(field, "save");
    MethodParams::fields(self.method, field);
  }
};

struct Summary {
  std::int64_t trained_length = 0, trained_models = 0, parameters = 0, vocab_size = 0;
  std::string resolved_text;
  double chance_nll = 0;

  static void fields(auto& self, auto&& field) {
    field("trained_length", self.trained_length, "length of training", "tokens");
    field("trained_models", self.trained_models, "models trained, further training included");
    field("parameters", self.parameters, "numbers that each model trains (the last one's)");
    field("vocab_size", self.vocab_size, "distinct tokens");
    field("resolved_text", self.resolved_text, "what was learned");
    field("chance_nll", self.chance_nll, "ln(vocab_size): every token equally likely", "nats/token");
  }
};

struct Row {
  PositionEncoding encoding;
  std::optional<RopeType> scaling;
  std::int64_t extra_steps = 0, seed = 0;
  std::optional<double> train_loss;
  std::int64_t length = 0;
  std::optional<double> mean_nll, accuracy;
  std::int64_t tokens = 0;
  std::optional<double> mean, low, high;
  std::optional<double> difference, difference_low, difference_high;
  std::string note;

  static void fields(auto& self, auto&& field) {
    field("encoding", self.encoding, "what tells positions apart");
    field("scaling", self.scaling, "of the RoPE frequencies (null: as trained)");
    field("extra_steps", self.extra_steps, "further training with this scaling");
    field("seed", self.seed, "of the first values and the batches");
    field("train_loss", self.train_loss,
          "mean over the last tenth of the training steps (null: none with this scaling)", "nats/token");
    field("length", self.length, "context length", "tokens");
    field("mean_nll", self.mean_nll, "mean of -ln p(token), mode chunks", "nats/token");
    field("accuracy", self.accuracy, "share of targets that the model finds likeliest");
    field("tokens", self.tokens, "tokens scored", "tokens");
    field("mean", self.mean, "mean of mean_nll over the seeds", "nats/token");
    field("low", self.low, "lower end of its 95 percent interval (Student's t over the seeds)", "nats/token");
    field("high", self.high, "upper end", "nats/token");
    field("difference", self.difference, "mean_nll minus the first encoding's of the same seed, mean over the seeds",
          "nats/token");
    field("difference_low", self.difference_low, "lower end of its 95 percent interval, seeds paired", "nats/token");
    field("difference_high", self.difference_high, "upper end", "nats/token");
    field("note", self.note, "why there is no number");
  }
};

}  // namespace poslab::extrapolate_fields
