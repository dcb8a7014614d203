#include "experiments/evaluated_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "experiments/token_rate.h"
#include "poslab/formats/model_files.h"
#include "poslab/model_configs/presets.h"
#include "poslab/models/checkpoint_config.h"
#include "poslab/models/corpus.h"
#include "poslab/models/gguf_checkpoint.h"
#include "poslab/models/trainer.h"
#include "poslab/tokenizers/tokenizer.h"

namespace poslab {
namespace {

constexpr std::int64_t own_length = 32;
constexpr std::int64_t own_steps = 150;
constexpr std::int64_t task_tokens = 8192;

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument("[text] " + sentence); }

// A file is a GGUF file, or its reader says what it is instead.
bool is_gguf(const std::string& path) { return path.ends_with(".gguf") || std::filesystem::is_regular_file(path); }

[[noreturn]] void refuse_model(const std::string& sentence) { throw std::invalid_argument("[model] " + sentence); }

// A folder that holds a GGUF file alone means that file. Throws std::invalid_argument "[model] ..." for what holds no
// model.
std::optional<std::string> one_model(const std::optional<std::string>& path) {
  if (!path) return path;
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(*path, error))) {
    refuse_model(preset_text(*path) ? fmt::format("the preset {} has no weights: give a folder or a GGUF file.", *path)
                                    : fmt::format("there is no file or folder '{}'.", *path));
  }
  const ModelFiles files = model_files(*path);
  if (files.config || !std::filesystem::is_directory(*path, error)) return *path;
  if (files.gguf.size() == 1) return files.gguf[0];
  refuse_model(files.gguf.empty()
                   ? fmt::format("the folder {} holds no config.json and no GGUF file.", *path)
                   : fmt::format("the folder {} holds {} GGUF files and no config.json: name one of them.", *path,
                                 files.gguf.size()));
}

void check_vocabulary(const std::vector<std::int64_t>& tokens, const std::string& path, std::int64_t vocab_size) {
  const auto over = std::find_if(tokens.begin(), tokens.end(), [&](std::int64_t t) { return t >= vocab_size; });
  if (over == tokens.end()) return;
  refuse(fmt::format("{}: token {} at {} is past the model's vocabulary, 0 .. {}.", path, *over, over - tokens.begin(),
                     vocab_size - 1));
}

EvaluatedModel load(const std::optional<std::string>& model, Task own, const RunContext& context) {
  const std::optional<std::string> folder = one_model(model);
  if (folder && is_gguf(*folder)) {
    const GgufFile file(*folder);
    EvaluatedModel loaded{load_gguf_model<float>(file, context.threads), {}, *folder, std::nullopt};
    loaded.file = *folder;
    return loaded;
  }
  if (folder) {
    Checkpoint<float> loaded = load_checkpoint<float>(*folder);
    const std::optional<Task> task = trained_task(loaded.notes);
    const std::string part =
        loaded.left_out ? fmt::format(" (its text part; {} tensors of others are left out)", *loaded.left_out) : "";
    return {std::move(loaded.model), std::move(loaded.notes), *folder + part, task, *folder};
  }
  constexpr std::int64_t seed = 0;
  Transformer<float> small = new_model(evaluated_config(folder, own), seed);
  TrainOptions options;
  options.steps = own_steps;
  options.warmup = own_steps / 10;
  options.seq_len = own_length;
  options.learning_rate = 5e-3;
  options.seed = seed;
  options.threads = context.threads;
  TokenRate rate;
  const TrainResult trained = train(small, *task_source(own), options, {}, std::nullopt, [&](const TrainedStep& step) {
    rate.add(static_cast<double>(options.batch_size * options.seq_len));
    context.status(fmt::format("training, loss {:.3f}, {}", step.loss, rate.words()));
    context.progress(static_cast<double>(step.step) / static_cast<double>(own_steps));
  });
  if (trained.interrupted) throw std::runtime_error("[model] interrupted while training a small model.");
  return {std::move(small),
          {},
          fmt::format("a small model trained here on {} ({} steps)", to_word(own), own_steps),
          own,
          std::nullopt};
}

}  // namespace

std::optional<Task> trained_task(const CheckpointNotes& notes) {
  const auto note = notes.find("task");
  if (note == notes.end()) return std::nullopt;
  for (const auto& [task, word] : words(Task{})) {
    if (word == note->second) return task;
  }
  return std::nullopt;
}

TransformerConfig evaluated_config(const std::optional<std::string>& model, Task own) {
  const std::optional<std::string> folder = one_model(model);
  if (folder && is_gguf(*folder)) return gguf_transformer_config(GgufFile(*folder));
  if (folder) return read_config((std::filesystem::path(*folder) / "config.json").string()).config;
  TransformerConfig c;
  c.vocab_size = task_vocab_size(own);
  c.d_model = 32;
  c.n_layers = 2;
  c.n_heads = c.n_kv_heads = 2;
  c.head_dim = 16;
  c.d_ff = 128;
  c.max_position_embeddings = own_length;
  c.rope = plain_rope(c.head_dim);
  return c;
}

std::shared_ptr<const EvaluatedModel> load_evaluated_model(const std::optional<std::string>& model, Task own,
                                                           const RunContext& context) {
  const std::string key = model ? "model " + *model : fmt::format("task {}", to_word(own));
  return context.prepared->get<EvaluatedModel>(key, [&] { return load(model, own, context); });
}

std::optional<std::string> past_the_table(const TransformerConfig& config, std::int64_t length) {
  const std::optional<std::int64_t> most = config.encoding->longest_text(method_model(config));
  if (!most || length <= *most) return std::nullopt;
  return fmt::format("refused: the learned table ends at {}", *most);
}

EvaluatedText::EvaluatedText(const TextParams& params, const EvaluatedModel& model) : params_(params) {
  if ((params.tokens ? 1 : 0) + (params.text ? 1 : 0) + (params.task ? 1 : 0) > 1) {
    refuse("tokens, text and task exclude each other: give one.");
  }
  if (params.eval_tokens && *params.eval_tokens < 1) {
    refuse(fmt::format("eval_tokens must be at least 1 but got {}.", *params.eval_tokens));
  }
  const double share = params.held_out.value_or(1);
  if (!(share > 0 && share <= 1)) refuse(fmt::format("held_out must be above 0 and at most 1 but got {}.", share));
  const std::int64_t vocab_size = model.model.config().vocab_size;
  if (!params.tokens && !params.text) {
    task_ = params.task ? params.task : model.task;
    if (!task_) refuse(fmt::format("give tokens or text: {} does not say what it was trained on.", model.name));
    if (params.held_out || params.bos) refuse("held_out and bos need tokens or text.");
    if (task_vocab_size(*task_) != vocab_size) {
      refuse(
          fmt::format("task {} has {} tokens but the model {}.", to_word(*task_), task_vocab_size(*task_), vocab_size));
    }
    return;
  }
  std::vector<std::int64_t> tokens;
  std::optional<std::int64_t> bos;
  std::optional<Tokenizer> tokenizer;
  const std::optional<Vocabulary> vocabulary = Vocabulary::from_notes(model.notes);
  if (model.file && !vocabulary && (params.text || params.bos == true)) tokenizer = find_tokenizer(*model.file);
  if (tokenizer && params.bos.value_or(true)) bos = tokenizer->bos();
  if (params.bos == true && !bos) refuse(fmt::format("{} names no token that starts a text.", model.name));
  if (params.tokens) {
    tokens = read_token_file(*params.tokens);
    check_vocabulary(tokens, *params.tokens, vocab_size);
  } else if (tokenizer) {
    tokens = tokenizer->encode(read_text(*params.text));
    if (bos) tokens.insert(tokens.begin(), *bos);
    check_vocabulary(tokens, *params.text, vocab_size);
  } else {
    if (!vocabulary) {
      refuse(
          fmt::format("{} has no vocabulary that is read here; give it tokens as a .npy, which scripts/encode_text.py "
                      "writes.",
                      model.name));
    }
    tokens = vocabulary->encode(read_text(*params.text));
  }
  const auto used = std::ceil(static_cast<double>(tokens.size()) * share);
  tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(used));
  running_ = next_tokens(tokens);
  running_.start = bos;
  const auto most = static_cast<std::size_t>(std::min(running_.size(), params.eval_tokens.value_or(running_.size())));
  running_.tokens.resize(most);
  running_.targets.resize(most);
}

std::string EvaluatedText::name() const {
  if (task_) return fmt::format("task {}", to_word(*task_));
  return params_.tokens ? *params_.tokens : *params_.text;
}

EvaluationText EvaluatedText::of_length(std::int64_t length) const {
  if (!task_) return running_;
  const std::int64_t n = std::max<std::int64_t>(1, params_.eval_tokens.value_or(task_tokens) / length);
  EvaluationText text;
  text.tokens.resize(static_cast<std::size_t>(n * length));
  text.targets.resize(text.tokens.size());
  Generator generator(params_.seed);
  task_source(*task_)->draw(generator, n, length, text.tokens, text.targets);
  return text;
}

std::optional<std::int64_t> EvaluatedText::longest() const {
  return task_ ? std::nullopt : std::optional(running_.size());
}

}  // namespace poslab
