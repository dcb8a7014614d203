// What `train` takes and gives: the field lists of its parameters, summary and rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "experiments/rope_params.h"
#include "poslab/core/fields.h"
#include "poslab/methods/list.h"
#include "poslab/models/checkpoint.h"
#include "poslab/models/corpus.h"
#include "poslab/models/tasks.h"

namespace poslab::train_fields {

enum class Architecture { llama, gpt2 };
constexpr auto words(Architecture) {
  return word_table<Architecture>({{Architecture::llama, "llama"}, {Architecture::gpt2, "gpt2"}});
}

constexpr RopeHelp rope_help{
    .rope_type = "rope: how frequencies are scaled; absent: the checkpoint's, else default",
    .original_max_position_embeddings = "length before scaling; absent: the checkpoint's trained length, else seq_len",
    .factor = "how many times longer; absent: max(1, seq_len / original length)"};

// The sizes of the model and the length of its texts say the others.
constexpr bool is_set_here(std::string_view rope_param) {
  return rope_param != "model" && rope_param != "layer_type" && rope_param != "head_dim" &&
         rope_param != "max_position_embeddings";
}

struct Params {
  std::optional<Task> task;
  std::optional<FilePath> text, tokens;
  std::optional<TextUnit> text_unit;
  std::optional<double> held_out;
  std::optional<PositionEncoding> encoding;
  MethodParams method;
  std::optional<Architecture> architecture;
  std::optional<std::int64_t> d_model, n_layers, n_heads, n_kv_heads, d_ff;
  std::optional<bool> tied_head;
  RopeParams rope;
  std::optional<RopeLayout> layout;
  std::optional<std::int64_t> attention_window;
  std::int64_t steps = 300, batch_size = 16;
  std::optional<std::int64_t> seq_len;
  double learning_rate = 2e-3;
  std::optional<std::int64_t> warmup;
  double weight_decay = 0.1, clip_norm = 1;
  std::int64_t seed = 0, log_every = 10;
  std::optional<FilePath> save_model, init, continue_from;
  std::int64_t save_every = 0;

  static void fields(auto& self, auto&& field) {
    field(
        "task", self.task,
        "a built-in task made from the seed; absent: the checkpoint's, else induction, unless text or tokens is given");
    field("text", self.text, "a text file to train on");
    field("tokens", self.tokens, "a .npy of token numbers to train on");
    field("text_unit", self.text_unit, "what a token of the text is; absent: the checkpoint's, else characters");
    field("held_out", self.held_out, "share at the end of the text that is never trained on; absent: 0.1");
    field("encoding", self.encoding, "what tells positions apart; absent: the checkpoint's, else rope");
    field("architecture", self.architecture,
          "llama (RMSNorm, SwiGLU) or gpt2 (LayerNorm, GELU, biases); absent: gpt2 where a table of positions is "
          "learned, else llama");
    field("d_model", self.d_model, "values of a token's vector; absent: the checkpoint's, else 64", "channels");
    field("n_layers", self.n_layers, "layers; absent: the checkpoint's, else 2");
    field("n_heads", self.n_heads, "attention heads; absent: the checkpoint's, else 4");
    field("n_kv_heads", self.n_kv_heads, "heads of keys and values; absent: the checkpoint's, else n_heads");
    field("d_ff", self.d_ff, "inner width; absent: the checkpoint's, else 4 (llama: about 8/3) times d_model",
          "channels");
    field("tied_head", self.tied_head, "the head is the table of token vectors; absent: the checkpoint's, else yes");
    const auto rope_field = [&](std::string_view name, auto& value, auto... texts) {
      if (is_set_here(name)) field(name, value, texts...);
    };
    RopeParams::fields(self.rope, rope_field, rope_help);
    field("layout", self.layout, "rope: which channels form a pair; absent: the checkpoint's, else half");
    field("attention_window", self.attention_window,
          "each token sees the last so many, itself included; 0: all; absent: the checkpoint's, else 0", "tokens");
    field("steps", self.steps, "steps of the optimiser, from the start of the run");
    field("batch_size", self.batch_size, "texts per step");
    field("seq_len", self.seq_len, "tokens per text; absent: the continued run's, else 64", "tokens");
    field("learning_rate", self.learning_rate, "the schedule's peak: linear warm-up, then a cosine to a tenth");
    field("warmup", self.warmup, "steps of warm-up; absent: a tenth of steps, at most 100");
    field("weight_decay", self.weight_decay, "AdamW's decay of matrices, apart from the gradient");
    field("clip_norm", self.clip_norm, "largest norm of the whole gradient; 0: no limit");
    field("seed", self.seed, "seed of the first values and of the batches");
    field("log_every", self.log_every, "a row for every so many steps, the first and the last");
    field("save_model", self.save_model, "folder of the checkpoint to write; absent: none");
    renamed_from(field, "save");
    field("save_every", self.save_every, "also save after every so many steps; 0: at the end");
    field("init", self.init, "checkpoint whose values the run starts from (fine-tuning)");
    field("continue_from", self.continue_from, "checkpoint of an interrupted run to go on with");
    MethodParams::fields(self.method, field);
  }
};

struct Summary {
  std::int64_t parameters = 0, vocab_size = 0, steps_done = 0, trained_tokens = 0;
  double first_loss = 0, final_loss = 0, chance_loss = 0;
  bool interrupted = false;
  PositionEncoding resolved_encoding;
  ModelFamily format = ModelFamily::llama;

  static void fields(auto& self, auto&& field) {
    field("resolved_encoding", self.resolved_encoding, "the model's encoding");
    field("format", self.format, "the checkpoint's format: Hugging Face's Llama or GPT-2 where they have the model");
    field("parameters", self.parameters, "numbers that are trained");
    field("vocab_size", self.vocab_size, "distinct tokens");
    field("steps_done", self.steps_done, "steps taken in all");
    field("trained_tokens", self.trained_tokens, "tokens seen in all", "tokens");
    field("first_loss", self.first_loss, "loss of the first step", "nats");
    field("final_loss", self.final_loss, "mean loss of the last steps (a tenth of them, at most 50)", "nats");
    field("chance_loss", self.chance_loss, "ln(vocab_size): every token equally likely", "nats");
    field("interrupted", self.interrupted, "stopped by Ctrl-C before the last step");
  }
};

struct Row {
  std::int64_t step = 0;
  double loss = 0, lr = 0, grad_norm = 0;

  static void fields(auto& self, auto&& field) {
    field("step", self.step, "from 1");
    field("loss", self.loss, "mean loss of the step's batch, before its update", "nats");
    field("lr", self.lr, "learning rate");
    field("grad_norm", self.grad_norm, "norm of the whole gradient before clipping");
  }
};

}  // namespace poslab::train_fields
