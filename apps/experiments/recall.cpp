#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "experiments/evaluated_model.h"
#include "experiments/experiment.h"
#include "experiments/model_rope.h"
#include "experiments/rope_params.h"
#include "poslab/models/evaluate.h"

namespace poslab {
namespace {

constexpr Task own_task = Task::passkey;

struct Params {
  RopeParams rope;
  std::optional<Task> task;
  std::optional<std::vector<std::int64_t>> seq_len, distances;
  std::int64_t n_trials = 64;
  std::optional<std::int64_t> attention_window;
  std::int64_t seed = 1;

  static void fields(auto& self, auto&& field) {
    RopeParams::fields(self.rope, field, evaluation_rope_help);
    field("task", self.task, "passkey or induction (associative recall); absent: the checkpoint's");
    field("seq_len", self.seq_len, "text lengths; absent: 1, 2 and 4 times the trained length", "tokens");
    field("distances", self.distances,
          "from the answer in the text to the question at its end; absent: 2, 4, 8, ... up to each length", "tokens");
    field("n_trials", self.n_trials, "texts drawn for each length and distance");
    field("attention_window", self.attention_window,
          "each token sees the last so many, itself included, 0: all; absent: the model's", "tokens");
    field("seed", self.seed, "seed of the texts");
  }
};

struct Summary {
  std::string resolved_model;
  Task resolved_task = Task::passkey;
  std::int64_t trained_length = 0;
  PositionEncoding encoding;
  std::optional<RopeType> resolved_rope_type;
  std::vector<double> resolved_factors;
  double chance = 0;
  double accuracy_within = 0, accuracy_beyond = 0;
  std::vector<std::string> warnings;

  static void fields(auto& self, auto&& field) {
    field("resolved_model", self.resolved_model, "the model that was asked");
    field("resolved_task", self.resolved_task, "what it was asked");
    field("trained_length", self.trained_length, "length of its training", "tokens");
    field("encoding", self.encoding, "what tells the model its positions");
    field("resolved_rope_type", self.resolved_rope_type, "the scaling in effect (null: no RoPE)");
    field("resolved_factors", self.resolved_factors, "its factor at each length (empty: none)");
    field("chance", self.chance, "accuracy of guessing among the possible answers");
    field("accuracy_within", self.accuracy_within, "mean over texts up to the trained length (null: none)");
    field("accuracy_beyond", self.accuracy_beyond, "mean over longer texts (null: none)");
    field("warnings", self.warnings, "what to know about these parameters");
  }
};

struct Row {
  std::int64_t distance = 0, length = 0;
  std::optional<double> accuracy, mean_nll, perplexity;
  std::int64_t trials = 0;
  std::string note;

  static void fields(auto& self, auto&& field) {
    field("distance", self.distance, "from the answer in the text to the question at its end", "tokens");
    field("length", self.length, "tokens of the text", "tokens");
    field("accuracy", self.accuracy, "share of texts whose answer the model finds likeliest");
    field("mean_nll", self.mean_nll, "mean of -ln p(answer)", "nats");
    field("perplexity", self.perplexity, "exp(mean_nll)");
    field("trials", self.trials, "texts");
    field("note", self.note, "why there is no number");
  }
};

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument("[recall] " + sentence); }

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::vector<std::int64_t> rising(const char* name, const std::vector<std::int64_t>& values, std::int64_t least) {
  if (values.empty()) refuse(fmt::format("{} must not be empty.", name));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < least || values[i] > longest_context) {
      refuse(fmt::format("{} must be {} .. {} but got {}.", name, least, longest_context, values[i]));
    }
    if (i > 0 && values[i] <= values[i - 1]) {
      refuse(fmt::format("{} must ascend but {} follows {}.", name, values[i], values[i - 1]));
    }
  }
  return values;
}

std::vector<std::int64_t> text_lengths(const Params& p, std::int64_t trained) {
  constexpr std::int64_t shortest = 8;
  if (p.seq_len) return rising("seq_len", *p.seq_len, shortest);
  std::vector<std::int64_t> lengths;
  for (std::int64_t times : {1, 2, 4}) lengths.push_back(std::max(shortest, trained) * times);
  return lengths;
}

// Those that a text of this length can have.
std::vector<std::int64_t> text_distances(const Params& p, std::int64_t length) {
  std::vector<std::int64_t> distances;
  if (p.distances) {
    for (std::int64_t distance : rising("distances", *p.distances, 2)) {
      if (distance <= length - 2) distances.push_back(distance);
    }
    return distances;
  }
  for (std::int64_t distance = 2; distance < length - 2; distance *= 2) distances.push_back(distance);
  distances.push_back(length - 2);
  return distances;
}

// The question is the last token; nothing else is asked.
EvaluationText draw_trials(Task task, Generator& generator, std::int64_t n, std::int64_t length,
                           std::int64_t distance) {
  EvaluationText text;
  text.tokens.resize(static_cast<std::size_t>(n * length));
  text.targets.assign(text.tokens.size(), no_target);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::span<std::int64_t> one =
        std::span(text.tokens).subspan(static_cast<std::size_t>(i * length), static_cast<std::size_t>(length));
    text.targets[static_cast<std::size_t>((i + 1) * length - 1)] = draw_recall(task, generator, distance, one);
  }
  return text;
}

std::string left_out(const Record& record) {
  const auto p = from_record<Params>(record);
  const TransformerConfig config = evaluated_config(p.rope.model, own_task);
  const bool given = p.seq_len && !p.seq_len->empty();
  return model_rope_left_out(p.rope, config, given ? p.seq_len->back() : trained_length(config));
}

std::string conclude(const Params& p, const Summary& s) {
  std::string text = fmt::format(
      "{}, {}, trained at {} tokens, asked for what stood `distance` tokens before the end ({} texts each, "
      "chance {:.3g}).\n",
      s.resolved_model, to_word(s.encoding), s.trained_length, p.n_trials, s.chance);
  const auto percent = [](double share) { return fmt::format("{:.1f} percent", 100 * share); };
  if (!std::isnan(s.accuracy_within)) {
    text += fmt::format("Texts up to the trained length: {} right.\n", percent(s.accuracy_within));
  }
  if (!std::isnan(s.accuracy_beyond)) text += fmt::format("Longer texts: {} right.\n", percent(s.accuracy_beyond));
  if (s.accuracy_within - s.accuracy_beyond > 0.1) {
    text += "The model does not find at unfamiliar places what it finds at familiar ones.";
  }
  return text;
}

TypedReport<Summary, Row> run(const Params& p, const RunContext& context) {
  const double before = p.rope.model ? 0 : 0.5;
  RunContext loading = context;
  loading.progress = [&](double done) { context.progress(before * done); };
  const auto shared = load_evaluated_model(p.rope.model, own_task, loading);
  const EvaluatedModel& loaded = *shared;
  const TransformerConfig& config = loaded.model.config();
  const std::optional<Task> task = p.task ? p.task : loaded.task;
  if (!task) refuse(fmt::format("give task: {} does not say that it was trained on one.", loaded.name));
  if (*task != Task::passkey && *task != Task::induction) {
    refuse(fmt::format("task must be passkey or induction but is {}.", to_word(*task)));
  }
  if (task_vocab_size(*task) != config.vocab_size) {
    refuse(fmt::format("task {} has {} tokens but the model {}.", to_word(*task), task_vocab_size(*task),
                       config.vocab_size));
  }
  if (p.n_trials < 1 || p.n_trials > 1 << 20) {
    refuse(fmt::format("n_trials must be 1 .. {} but got {}.", 1 << 20, p.n_trials));
  }
  const std::int64_t window = p.attention_window.value_or(config.attention_window);
  if (window < 0) refuse(fmt::format("attention_window must be 0 or more but got {}.", window));

  TypedReport<Summary, Row> report;
  Summary& s = report.summary;
  s.resolved_model = loaded.name;
  s.resolved_task = *task;
  s.encoding = config.encoding;
  s.trained_length = trained_length(config);
  s.chance = 1.0 / static_cast<double>(recall_answers(*task));
  Picture picture;
  picture.title = "accuracy against distance";
  picture.x_label = "distance (tokens)";
  picture.y_label = "accuracy";
  double right_within = 0, right_beyond = 0;
  std::int64_t trials_within = 0, trials_beyond = 0;
  const std::vector<std::int64_t> lengths = text_lengths(p, s.trained_length);
  Generator generator(p.seed);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::int64_t length = lengths[i];
    const std::vector<std::int64_t> distances = text_distances(p, length);
    if (const std::optional<std::string> refused = past_the_table(config, length)) {
      for (std::int64_t distance : distances) {
        report.rows.push_back({distance, length, std::nullopt, std::nullopt, std::nullopt, 0, *refused});
      }
      continue;
    }
    const ModelRope rope = model_rope(p.rope, config, length);
    s.resolved_rope_type = rope.rope_type;
    if (rope.factor) s.resolved_factors.push_back(*rope.factor);
    for (const std::string& warning : rope.warnings) {
      if (std::ranges::find(s.warnings, warning) == s.warnings.end()) s.warnings.push_back(warning);
    }
    Series series{fmt::format("{} tokens", length), {}, {}};
    for (std::size_t d = 0; d < distances.size(); ++d) {
      const EvaluationText text = draw_trials(*task, generator, p.n_trials, length, distances[d]);
      const ForwardOptions options{.rope = rope.frequencies, .attention_window = window, .threads = context.threads};
      std::vector<double> nll;
      std::int64_t right = 0;
      for (const ScoredToken& token :
           score_windows<float>(loaded.model, text, covering_chunks(text.size(), length), options)) {
        nll.push_back(token.nll);
        right += token.right;
      }
      const MeanLoss loss = mean_loss(nll);
      const double accuracy = static_cast<double>(right) / static_cast<double>(p.n_trials);
      report.rows.push_back({distances[d], length, accuracy, loss.mean_nll, std::exp(loss.mean_nll), p.n_trials, ""});
      series.x.push_back(static_cast<double>(distances[d]));
      series.y.push_back(accuracy);
      const bool within = length <= s.trained_length;
      (within ? right_within : right_beyond) += static_cast<double>(right);
      (within ? trials_within : trials_beyond) += p.n_trials;
      const double done = static_cast<double>(d + 1) / static_cast<double>(distances.size());
      context.progress(before + (1 - before) * (static_cast<double>(i) + done) / static_cast<double>(lengths.size()));
    }
    picture.series.push_back(std::move(series));
  }
  if (report.rows.empty()) {
    refuse(fmt::format("no distance fits: a text of {} tokens has distances up to {}.", lengths.back(),
                       lengths.back() - 2));
  }
  s.accuracy_within = trials_within > 0 ? right_within / static_cast<double>(trials_within) : nan;
  s.accuracy_beyond = trials_beyond > 0 ? right_beyond / static_cast<double>(trials_beyond) : nan;
  const auto has_note = [](const Row& row) { return !row.note.empty(); };
  if (!std::ranges::any_of(report.rows, has_note)) {
    report.columns = {"distance", "length", "accuracy", "mean_nll", "perplexity", "trials"};
  }
  report.conclusion = conclude(p, s);
  report.pictures.push_back(std::move(picture));
  return report;
}

Experiment describe_recall() {
  Experiment e = describe<Params, Summary, Row>(
      "recall", "How far back, and in how long a text, does a model still find what it is asked for?",
      "poslab recall --task passkey --seq-len 32,64,128 --n-trials 32", run);
  e.excluded = left_out;
  return e;
}

const Registrar registrar("recall", describe_recall);

}  // namespace
}  // namespace poslab
