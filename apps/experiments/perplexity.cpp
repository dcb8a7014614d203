#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/evaluated_model.h"
#include "experiments/experiment.h"
#include "experiments/model_rope.h"
#include "experiments/rope_params.h"
#include "experiments/token_rate.h"
#include "poslab/models/evaluate.h"
#include "poslab/report/document.h"

namespace poslab {
namespace {

constexpr Task own_task = Task::passkey;

struct Params {
  RopeParams rope;
  TextParams text;
  std::optional<std::vector<std::int64_t>> seq_len;
  EvaluationMode mode = EvaluationMode::chunks;
  std::optional<std::int64_t> stride;
  std::optional<std::vector<std::int64_t>> buckets;
  std::optional<std::int64_t> attention_window;

  static void fields(auto& self, auto&& field) {
    RopeParams::fields(self.rope, field, evaluation_rope_help);
    TextParams::fields(self.text, field);
    field("seq_len", self.seq_len, "context lengths; absent: 1, 2 and 4 times the trained length, as the text allows",
          "tokens");
    field("mode", self.mode,
          "chunks: side by side, all scored; sliding: overlapping, new tokens scored; last: overlapping, the last "
          "stride tokens scored");
    field("stride", self.stride, "sliding, last: how far a window is from the next; absent: half of each length",
          "tokens");
    field("buckets", self.buckets, "where the buckets of positions begin; absent: 0, 64, 128, 256, ...", "tokens");
    field("attention_window", self.attention_window,
          "each token sees the last so many, itself included, 0: all; absent: the model's", "tokens");
  }
};

struct Summary {
  std::string resolved_model, resolved_text;
  std::int64_t trained_length = 0, text_length = 0;
  PositionEncoding encoding;
  std::optional<RopeType> resolved_rope_type;
  std::vector<double> resolved_factors;
  std::int64_t resolved_window = 0;
  std::vector<std::int64_t> lengths;
  std::vector<double> length_nll, length_stderr, control_nll, control_stderr;
  std::vector<std::int64_t> length_tokens;
  std::vector<std::string> warnings;

  static void fields(auto& self, auto&& field) {
    field("resolved_model", self.resolved_model, "the model that was evaluated");
    field("resolved_text", self.resolved_text, "what it was evaluated on");
    field("trained_length", self.trained_length, "what the control's context is cut to", "tokens");
    field("text_length", self.text_length, "tokens of the text that were used", "tokens");
    field("encoding", self.encoding, "what tells the model its positions");
    field("resolved_rope_type", self.resolved_rope_type, "the scaling in effect (null: no RoPE)");
    field("resolved_factors", self.resolved_factors, "its factor at each length (empty: none)");
    field("resolved_window", self.resolved_window, "each token sees the last so many (0: all)", "tokens");
    field("lengths", self.lengths, "context lengths", "tokens");
    field("length_nll", self.length_nll, "mean over all scored tokens of each length (null: refused)", "nats/token");
    field("length_stderr", self.length_stderr, "its standard error", "nats/token");
    field("control_nll", self.control_nll, "the same tokens, context cut to the trained length", "nats/token");
    field("control_stderr", self.control_stderr, "its standard error", "nats/token");
    field("length_tokens", self.length_tokens, "tokens scored at each length", "tokens");
    field("warnings", self.warnings, "what to know about these parameters");
  }
};

struct Row {
  std::int64_t length = 0, position_first = 0, position_last = 0;
  std::optional<double> mean_nll, standard_error, perplexity;
  std::int64_t tokens = 0;
  bool control = false;
  std::string note;

  static void fields(auto& self, auto&& field) {
    field("length", self.length, "context length", "tokens");
    field("position_first", self.position_first, "first position of the bucket in the window, from 0", "tokens");
    field("position_last", self.position_last, "its last position", "tokens");
    field("mean_nll", self.mean_nll, "mean of -ln p(token)", "nats/token");
    field("stderr", self.standard_error, "its standard error, tokens taken as independent", "nats/token");
    field("perplexity", self.perplexity, "exp(mean_nll)");
    field("tokens", self.tokens, "tokens scored", "tokens");
    field("control", self.control, "the same tokens, context cut to the trained length, frequencies unscaled");
    field("note", self.note, "why there is no number");
  }
};

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument("[perplexity] " + sentence); }

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// `most`: the longest that the text fills.
std::vector<std::int64_t> context_lengths(const Params& p, std::int64_t trained, std::optional<std::int64_t> most) {
  const auto fits = [&](std::int64_t length) { return !most || length <= *most; };
  std::vector<std::int64_t> lengths;
  if (p.seq_len) {
    for (std::int64_t length : *p.seq_len) {
      if (length < 1 || length > longest_context) {
        refuse(fmt::format("seq_len must be 1 .. {} but got {}.", longest_context, length));
      }
      if (!lengths.empty() && length <= lengths.back()) {
        refuse(fmt::format("seq_len must ascend but {} follows {}.", length, lengths.back()));
      }
      if (!fits(length)) {
        refuse(fmt::format("seq_len {} needs {} tokens, one more to predict, but the text has {}.", length, length + 1,
                           *most + 1));
      }
      lengths.push_back(length);
    }
    if (lengths.empty()) refuse("seq_len must name at least one context length.");
    return lengths;
  }
  for (std::int64_t times : {1, 2, 4}) {
    if (fits(times * trained)) lengths.push_back(times * trained);
  }
  if (lengths.empty()) {
    refuse(
        fmt::format("the text has {} tokens, too few for the trained length of {}; give seq_len.", *most + 1, trained));
  }
  return lengths;
}

// The scored targets of one length, each with its loss in the control; nll is empty where the length is refused.
struct Losses {
  std::vector<std::int64_t> positions;
  std::vector<double> nll, control;

  MeanLoss within(const std::vector<double>& of, const PositionBucket& bucket) const {
    std::vector<double> values;
    for (std::size_t i = 0; i < of.size(); ++i) {
      if (positions[i] >= bucket.first && positions[i] <= bucket.last) values.push_back(of[i]);
    }
    return mean_loss(values);
  }
};

// The same targets with the context cut to the trained length: nll by the target's index in the text.
std::vector<double> score_control(const Transformer<float>& model, const EvaluationText& text, int threads,
                                  const std::function<void(double)>& progress) {
  const TransformerConfig& config = model.config();
  const ForwardOptions plain{
      .rope = unscaled_frequencies(config), .attention_window = std::nullopt, .threads = threads};
  std::vector<double> nll(text.tokens.size(), nan);
  for (const ScoredToken& token :
       score_windows<float>(model, text, covering_chunks(text.size(), trained_length(config)), plain, progress)) {
    nll[static_cast<std::size_t>(token.index)] = token.nll;
  }
  return nll;
}

// Losses by the target's index in the text. The points of a sweep share them: no scaling and no window changes them.
struct Control {
  std::vector<double> nll;
};

// All that a control depends on; the text of a task is another for each length.
std::string control_key(const Params& p, bool is_task, std::int64_t length) {
  std::string key = fmt::format("{} {}", p.rope.model.value_or(""), is_task ? length : 0);
  for (const Value& value : to_record(p.text)) {
    key += ' ';
    append_json(key, value);
  }
  return key;
}

Row row_of(std::int64_t length, const PositionBucket& bucket, const MeanLoss& loss, bool control) {
  return {length,      bucket.first, bucket.last, loss.mean_nll, loss.standard_error, std::exp(loss.mean_nll),
          loss.tokens, control,      ""};
}

std::string conclude(const Params& p, const Summary& s) {
  std::string text = fmt::format("{}, {}, trained at {} tokens; {} of {}.\n", s.resolved_model, to_word(s.encoding),
                                 s.trained_length, to_word(p.mode), s.resolved_text);
  for (std::size_t i = 0; i < s.lengths.size(); ++i) {
    const std::string loss =
        s.length_tokens[i] == 0       ? fmt::format("refused, the learned table ends at {}", s.trained_length)
        : std::isnan(s.length_nll[i]) ? "no number, since the model's own overflow"
                                      : fmt::format("{:.4f} +- {:.4f} nats/token", s.length_nll[i], s.length_stderr[i]);
    text += fmt::format("{:>6} tokens: {}; the context cut to {}: {:.4f}\n", s.lengths[i], loss, s.trained_length,
                        s.control_nll[i]);
  }
  const double gain = s.control_nll.back() - s.length_nll.back();
  if (s.lengths.back() <= s.trained_length || std::isnan(gain)) return text;
  const double noise = 2 * std::hypot(s.length_stderr.back(), s.control_stderr.back());
  if (gain > noise) return text + "The longer context helps.";
  if (gain < -noise) return text + fmt::format("The longer context costs {:.3f} nats/token: cut it.", -gain);
  return text + "What the longer context changes lies within two standard errors.";
}

Picture picture_of(const Summary& s, const std::vector<Row>& rows) {
  Picture picture;
  picture.title = "loss against context";
  picture.y_label = "mean_nll (nats/token)";
  picture.series = {{"this context", {}, {}}, {"cut to the trained length", {}, {}}};
  const bool by_length = s.lengths.size() > 1;
  picture.x_label = by_length ? "length (tokens)" : "position (tokens)";
  if (by_length) {
    for (std::size_t i = 0; i < s.lengths.size(); ++i) {
      for (Series& series : picture.series) series.x.push_back(static_cast<double>(s.lengths[i]));
      picture.series[0].y.push_back(s.length_nll[i]);
      picture.series[1].y.push_back(s.control_nll[i]);
    }
  } else {
    for (const Row& row : rows) {
      Series& series = picture.series[row.control ? 1 : 0];
      series.x.push_back(static_cast<double>(row.position_last));
      series.y.push_back(row.mean_nll.value_or(nan));
    }
  }
  return picture;
}

std::string left_out(const Record& record) {
  const auto p = from_record<Params>(record);
  const TransformerConfig config = evaluated_config(p.rope.model, own_task);
  const bool given = p.seq_len && !p.seq_len->empty();
  return model_rope_left_out(p.rope, config, given ? p.seq_len->back() : trained_length(config));
}

TypedReport<Summary, Row> run(const Params& p, const RunContext& context) {
  // Training the small model takes about as long as evaluating it.
  const double before = p.rope.model ? 0 : 0.5;
  RunContext loading = context;
  loading.progress = [&](double done) { context.progress(before * done); };
  const auto shared = load_evaluated_model(p.rope.model, own_task, loading);
  const EvaluatedModel& loaded = *shared;
  const TransformerConfig& config = loaded.model.config();
  const EvaluatedText source(p.text, loaded);

  TypedReport<Summary, Row> report;
  Summary& s = report.summary;
  s.resolved_model = loaded.name;
  s.resolved_text = source.name();
  s.encoding = config.encoding;
  s.trained_length = trained_length(config);
  s.resolved_window = p.attention_window.value_or(config.attention_window);
  if (s.resolved_window < 0) refuse(fmt::format("attention_window must be 0 or more but got {}.", s.resolved_window));
  if (source.is_task() && p.mode != EvaluationMode::chunks) {
    refuse(fmt::format("mode {} needs a running text; the texts of a task stand alone.", to_word(p.mode)));
  }
  s.lengths = context_lengths(p, s.trained_length, source.longest());

  EvaluationText text;
  std::shared_ptr<const Control> control;
  TokenRate rate;
  for (std::size_t i = 0; i < s.lengths.size(); ++i) {
    const std::int64_t length = s.lengths[i];
    const double n_passes = 2 * static_cast<double>(s.lengths.size());
    const auto progress = [&](double pass, std::int64_t tokens) {
      return [&, tokens, done = 2 * static_cast<double>(i) + pass, last = 0.0](double share) mutable {
        rate.add(static_cast<double>(tokens) * (share - std::exchange(last, share)));
        context.status(rate.words());
        context.progress(before + (1 - before) * (done + share) / n_passes);
      };
    };
    const ModelRope rope = model_rope(p.rope, config, length);
    s.resolved_rope_type = rope.rope_type;
    if (rope.factor) s.resolved_factors.push_back(*rope.factor);
    for (const std::string& warning : rope.warnings) {
      if (std::ranges::find(s.warnings, warning) == s.warnings.end()) s.warnings.push_back(warning);
    }
    // A running text is the same at every length.
    if (i == 0 || source.is_task()) {
      text = source.of_length(length);
      control = context.prepared->get<Control>(control_key(p, source.is_task(), length), [&] {
        return Control{score_control(loaded.model, text, context.threads, progress(0, text.size()))};
      });
    }
    s.text_length = text.size();
    const auto windows =
        evaluation_windows(p.mode, text.size(), length, p.stride.value_or(std::max<std::int64_t>(1, length / 2)));
    const auto buckets = position_buckets(p.buckets.value_or(doubling_edges(length)), length);

    Losses losses;
    const std::optional<std::string> refused = past_the_table(config, length);
    if (refused) {
      report.rows.push_back({length, 0, length - 1, std::nullopt, std::nullopt, std::nullopt, 0, false, *refused});
      for (const EvaluationWindow& window : windows) {
        for (std::int64_t position = window.scored_from; position < length; ++position) {
          const auto index = static_cast<std::size_t>(window.first + position);
          if (text.targets[index] == no_target) continue;
          losses.positions.push_back(position);
          losses.control.push_back(control->nll[index]);
        }
      }
    } else {
      const ForwardOptions options{
          .rope = rope.frequencies, .attention_window = s.resolved_window, .threads = context.threads};
      for (const ScoredToken& token :
           score_windows<float>(loaded.model, text, windows, options, progress(1, std::ssize(windows) * length))) {
        losses.positions.push_back(token.position);
        losses.nll.push_back(token.nll);
        losses.control.push_back(control->nll[static_cast<std::size_t>(token.index)]);
      }
    }
    for (const bool is_control : {false, true}) {
      for (const PositionBucket& bucket : buckets) {
        const MeanLoss loss = losses.within(is_control ? losses.control : losses.nll, bucket);
        if (loss.tokens > 0) report.rows.push_back(row_of(length, bucket, loss, is_control));
      }
    }
    const MeanLoss all = mean_loss(losses.nll), cut = mean_loss(losses.control);
    s.length_nll.push_back(refused ? nan : all.mean_nll);
    s.length_stderr.push_back(all.standard_error.value_or(nan));
    s.control_nll.push_back(cut.tokens > 0 ? cut.mean_nll : nan);
    s.control_stderr.push_back(cut.standard_error.value_or(nan));
    s.length_tokens.push_back(all.tokens);
  }

  if (report.rows.empty()) refuse("no token that is scored falls into any of the buckets.");
  const auto has_note = [](const Row& row) { return !row.note.empty(); };
  if (!std::ranges::any_of(report.rows, has_note)) {
    report.columns = {"length", "position_first", "position_last", "mean_nll",
                      "stderr", "perplexity",     "tokens",        "control"};
  }
  report.conclusion = conclude(p, s);
  report.pictures.push_back(picture_of(s, report.rows));
  return report;
}

Experiment describe_perplexity() {
  Experiment e =
      describe<Params, Summary, Row>("perplexity", "How does a model's loss depend on the length of its context?",
                                     "poslab perplexity --seq-len 64,128,256 --rope-type yarn --factor 4", run);
  e.excluded = left_out;
  return e;
}

const Registrar registrar("perplexity", describe_perplexity);

}  // namespace
}  // namespace poslab
