// The model that an experiment evaluates, and the text it is evaluated on: shared by perplexity and recall.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "experiments/experiment.h"
#include "poslab/models/checkpoint.h"
#include "poslab/models/evaluate.h"
#include "poslab/models/tasks.h"

namespace poslab {

inline constexpr std::string_view evaluated_model_help =
    "a checkpoint's folder, of train or of Hugging Face, or a GGUF file, of a family that poslab runs (Llama and its "
    "kin, "
    "GPT-2, ...: poslab list models); absent: a small one, trained on the spot";

struct EvaluatedModel {
  Transformer<float> model;
  CheckpointNotes notes;
  std::string name;                      // for a reader
  std::optional<Task> task;              // that it was trained on, where its checkpoint says so
  std::optional<std::string> file = {};  // a GGUF file or a folder, whose vocabulary reads texts
};

// The task that a checkpoint was trained on, where its notes say so.
std::optional<Task> trained_task(const CheckpointNotes& notes);

// The config of that model, without its weights. `own` is the task of the small model that stands in for none.
TransformerConfig evaluated_config(const std::optional<std::string>& model, Task own);

// Loads the file or folder (one that holds a GGUF file alone means that file), or trains the small model (RoPE, 2
// layers, d_model 32, 32 tokens; the same at every call). Once for all points of a sweep: context.prepared keeps it.
std::shared_ptr<const EvaluatedModel> load_evaluated_model(const std::optional<std::string>& model, Task own,
                                                           const RunContext& context);

// True, and a sentence for the rows, where a learned table has no vector for the last of `length` positions.
std::optional<std::string> past_the_table(const TransformerConfig& config, std::int64_t length);

// What to evaluate on: at most one of tokens, text and task.
struct TextParams {
  std::optional<FilePath> tokens, text;
  std::optional<double> held_out;
  std::optional<bool> bos;
  std::optional<Task> task;
  std::optional<std::int64_t> eval_tokens;
  std::int64_t seed = 1;

  static void fields(auto& self, auto&& field) {
    field("tokens", self.tokens, "a .npy of token numbers to evaluate on; absent: text, else task");
    field("text", self.text,
          "a text file to evaluate on, for GGUF files, folders with a sentencepiece tokenizer.model, and checkpoints "
          "trained on a text; absent: tokens, else task");
    field("held_out", self.held_out, "share at the end of tokens or text that is used; absent: all of it");
    field("bos", self.bos,
          "each window starts with the model's start-of-text token in the place of its first one, without which some "
          "models (Gemma) predict badly; absent: for text, where a GGUF file's vocabulary adds one");
    field("task", self.task, "a built-in task to evaluate on; absent: the checkpoint's");
    field("eval_tokens", self.eval_tokens,
          "tokens to evaluate on at most, from the start; absent: all, and of a task 8192 for each length", "tokens");
    renamed_from(field, "positions");
    field("seed", self.seed, "seed of a task's texts");
  }
};

// One running text, or a task's texts side by side, drawn anew for each length.
class EvaluatedText {
 public:
  // Throws std::invalid_argument "[text] ..." for parameters that contradict each other and for a text or a task that
  // does not fit the model's vocabulary.
  EvaluatedText(const TextParams& params, const EvaluatedModel& model);

  bool is_task() const { return task_.has_value(); }
  std::string name() const;
  // The text that contexts of `length` tokens are cut from.
  EvaluationText of_length(std::int64_t length) const;
  // The longest context there are tokens for; a task has any.
  std::optional<std::int64_t> longest() const;

 private:
  TextParams params_;
  std::optional<Task> task_;
  EvaluationText running_;
};

}  // namespace poslab
