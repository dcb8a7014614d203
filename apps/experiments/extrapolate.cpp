#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "experiments/evaluated_model.h"
#include "experiments/experiment.h"
#include "experiments/extrapolate_fields.h"
#include "experiments/kept_result.h"
#include "experiments/study_material.h"
#include "experiments/token_rate.h"
#include "poslab/core/require.h"
#include "poslab/core/student.h"
#include "poslab/models/evaluate.h"
#include "poslab/models/tasks.h"
#include "poslab/models/trainer.h"
#include "poslab/report/document.h"

namespace poslab {
namespace {

using namespace extrapolate_fields;

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument("[extrapolate] " + sentence); }

constexpr RequireWithin require_within{"extrapolate"};

template <class V>
void require_distinct(const char* name, const std::vector<V>& values) {
  if (values.empty()) refuse(fmt::format("{} must not be empty.", name));
  for (auto i = values.begin(); i != values.end(); ++i) {
    if (std::find(values.begin(), i, *i) != i) refuse(fmt::format("{} names a value twice.", name));
  }
}

void check(const Params& p) {
  if (p.task && p.text) refuse("task and text exclude each other: give one.");
  require_distinct("encodings", p.encodings);
  require_distinct("seeds", p.seeds);
  require_distinct("multiples", p.multiples);
  require_distinct("extend_steps", p.extend_steps);
  if (!p.extend_types.empty()) require_distinct("extend_types", p.extend_types);
  for (std::int64_t seed : p.seeds) require_within("seeds", seed, 0, std::numeric_limits<std::int64_t>::max());
  require_within("seq_len", p.seq_len, 8, 1 << 16);
  for (std::int64_t multiple : p.multiples) require_within("multiples", multiple, 1, 1 << 10);
  require_within("eval_tokens", p.eval_tokens, 1, 1 << 28);
  require_within("n_layers", p.n_layers, 1, 1 << 10);
  require_within("d_model", p.d_model, 2, 1 << 14);
  require_within("n_heads", p.n_heads, 1, p.d_model);
  require_within("steps", p.steps, 1, 1 << 30);
  require_within("batch_size", p.batch_size, 1, 1 << 16);
  for (std::int64_t steps : p.extend_steps) require_within("extend_steps", steps, 0, 1 << 30);
  require_within("extend_multiple", p.extend_multiple, 2, 1 << 10);
  if (p.d_model % p.n_heads != 0)
    refuse(fmt::format("d_model {} is not divisible by n_heads {}.", p.d_model, p.n_heads));
  if (!(p.learning_rate > 0 && std::isfinite(p.learning_rate))) {
    refuse(fmt::format("learning_rate must be above 0 but got {}.", p.learning_rate));
  }
  for (RopeType type : p.extend_types) {
    if (!type->uses_factor || type->part_of_training || type->follows_length == FollowsLength::beyond_original) {
      refuse(fmt::format("extend_types cannot be {}; it has no factor to stretch by.", to_word(type)));
    }
  }
}

TransformerConfig study_config(const Params& p, PositionEncoding encoding, std::int64_t vocab_size) {
  TransformerConfig c;
  c.vocab_size = vocab_size;
  c.d_model = p.d_model;
  c.n_layers = p.n_layers;
  c.n_heads = c.n_kv_heads = p.n_heads;
  c.head_dim = p.d_model / p.n_heads;
  c.d_ff = 4 * p.d_model;
  c.encoding = encoding;
  c.max_position_embeddings = p.seq_len;
  c.rope = plain_rope(c.head_dim);
  c.method = p.method;
  encoding->set_defaults(c.method, p.seq_len);
  return c;
}

// The same values, their frequencies scaled by the factor whatever the length.
Transformer<float> rescaled(const Params& p, const Transformer<float>& model, RopeType type) {
  TransformerConfig c = model.config();
  const auto trained = static_cast<double>(p.seq_len);
  c.rope.rope_type = type;
  c.rope.factor = static_cast<double>(p.extend_multiple);
  c.rope.original_max_position_embeddings = trained;
  c.rope.max_position_embeddings = trained;  // what some types take for the trained length
  c.max_position_embeddings = p.seq_len * p.extend_multiple;
  Transformer<float> out(c);
  std::ranges::copy(model.values(), out.values().begin());
  return out;
}

// All that a model's results depend on beside its encoding and its seed.
std::map<std::string, std::string> made_with(const Params& p, const StudyMaterial& material) {
  Params shared = p;
  shared.encodings.clear();
  shared.seeds.clear();
  shared.save_study.reset();
  std::map<std::string, std::string> made = given_values(field_specs<Params>(), to_record(shared));
  // A parameter of a method that nobody set is no part of it: methods come and go.
  const std::vector<FieldSpec> specs = field_specs<MethodParams>();
  const Record given = to_record(p.method);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (given[i] == specs[i].fallback) made.erase(specs[i].name);
  }
  made["text read"] = material.identity();
  return made;
}

// One model of the study, before its results are compared.
struct Variant {
  PositionEncoding encoding;
  std::optional<RopeType> scaling;
  std::int64_t extra_steps = 0;

  bool trained() const { return !scaling || extra_steps > 0; }

  std::string name() const {
    std::string text(to_word(encoding));
    if (scaling) text += fmt::format(" + {}", to_word(*scaling));
    if (extra_steps > 0) text += fmt::format(" + {} steps", extra_steps);
    return text;
  }
};

std::vector<Variant> variants_of(const Params& p, PositionEncoding encoding) {
  std::vector<Variant> variants = {{encoding, std::nullopt, 0}};
  if (!encoding->is_plain_rotation()) return variants;
  for (RopeType type : p.extend_types) {
    for (std::int64_t steps : p.extend_steps) variants.push_back({encoding, type, steps});
  }
  return variants;
}

class Study {
 public:
  Study(const Params& p, const RunContext& context)
      : p_(p),
        context_(context),
        // Further training reads longer stretches.
        material_(p.text, p.task.value_or(Task::passkey),
                  p.seq_len * (p.extend_types.empty() ? 1 : p.extend_multiple)) {
    for (std::int64_t multiple : p.multiples) asked_.emplace(p.seq_len * multiple, EvaluationText());
    for (auto& [length, text] : asked_) text = material_.asked(length, p.eval_tokens);
    if (p.save_study) made_with_ = made_with(p, material_);
    for (PositionEncoding encoding : p.encodings) work_ += work_of(encoding) * static_cast<double>(p.seeds.size());
  }

  // Rows by encoding, scaling, steps, seed and length.
  TypedReport<Summary, Row> run() {
    summary_.trained_length = p_.seq_len;
    summary_.vocab_size = material_.source().vocab_size();
    summary_.chance_nll = std::log(static_cast<double>(summary_.vocab_size));
    summary_.resolved_text = material_.name();
    for (PositionEncoding encoding : p_.encodings) {
      const std::vector<Variant> variants = variants_of(p_, encoding);
      std::vector<std::vector<Row>> rows(variants.size());
      const TransformerConfig config = study_config(p_, encoding, material_.source().vocab_size());
      for (std::int64_t seed : p_.seeds) {
        const std::vector<double> scores = scores_of(config, variants, seed);
        for (std::size_t v = 0, at = 0; v < variants.size(); ++v) {
          const double train_loss = scores[at++];
          for (const auto& asked : asked_) {
            rows[v].push_back(row_of(config, variants[v], seed, asked.first, std::span(scores).subspan(at, n_scores)));
            if (variants[v].trained()) rows[v].back().train_loss = train_loss;
            at += n_scores;
          }
        }
        for (const Variant& variant : variants) summary_.trained_models += variant.trained();
      }
      summary_.parameters = ParameterLayout(config).size();
      for (std::vector<Row>& of_variant : rows) {
        compare(of_variant);
        report_.rows.insert(report_.rows.end(), of_variant.begin(), of_variant.end());
      }
      for (const Variant& variant : variants) variants_.push_back(variant);
    }
    return finish();
  }

 private:
  // What a row keeps of an evaluation: mean_nll, accuracy, tokens.
  static constexpr std::size_t n_scores = 3;

  // Of one seed, by variant: its training loss, then its scores by length; from the folder where they are finished.
  std::vector<double> scores_of(const TransformerConfig& config, const std::vector<Variant>& variants,
                                std::int64_t seed) {
    std::optional<KeptResult> result;
    if (p_.save_study) {
      result.emplace(*p_.save_study, fmt::format("{}-seed{}", to_word(config.encoding), seed), made_with_);
      if (auto kept = result->find(variants.size() * (1 + asked_.size() * n_scores))) {
        work_ -= work_of(config.encoding);
        return *std::move(kept);
      }
    }
    std::vector<double> scores;
    Transformer<float> model = new_model(config, seed);
    const double trained_loss = train_on(model, seed, p_.steps, p_.seq_len);
    for (const Variant& variant : variants) {
      if (!variant.scaling) {
        scores.push_back(trained_loss);
        evaluate(model, seed, scores);
        continue;
      }
      Transformer<float> longer = rescaled(p_, model, *variant.scaling);
      scores.push_back(variant.trained() ? train_on(longer, seed, variant.extra_steps, p_.seq_len * p_.extend_multiple)
                                         : std::numeric_limits<double>::quiet_NaN());
      evaluate(longer, seed, scores);
    }
    if (result) result->keep(scores);
    return scores;
  }

  // Tokens that one seed's models read, thrice those they learn from.
  double work_of(PositionEncoding encoding) const {
    double tokens = 0;
    for (const Variant& variant : variants_of(p_, encoding)) {
      const std::int64_t steps = variant.scaling ? variant.extra_steps : p_.steps;
      tokens += 3 * static_cast<double>(steps * p_.batch_size * p_.seq_len);
      for (const auto& asked : asked_) tokens += static_cast<double>(asked.second.size());
    }
    return tokens;
  }

  void advance(const Transformer<float>& model, std::int64_t seed, double tokens, double work,
               const std::string& words) {
    rate_.add(tokens);
    done_ += work;
    context_.status(fmt::format("{} seed {}{}, {}", to_word(model.config().encoding), seed, words, rate_.words()));
    context_.progress(done_ / std::max(work_, done_));
  }

  // The mean loss over the last tenth of the steps.
  double train_on(Transformer<float>& model, std::int64_t seed, std::int64_t steps, std::int64_t length) {
    TrainOptions options;
    options.steps = steps;
    options.seq_len = length;
    options.batch_size = std::max<std::int64_t>(1, p_.batch_size * p_.seq_len / length);
    options.learning_rate = p_.learning_rate;
    options.warmup = std::clamp<std::int64_t>(steps / 10, 1, 100);
    options.seed = seed;
    options.threads = context_.threads;
    const auto tokens = static_cast<double>(options.batch_size * length);
    const std::int64_t last = (steps + 9) / 10;
    double loss = 0;
    const TrainResult result = train(model, material_.source(), options, {}, std::nullopt, [&](const TrainedStep& s) {
      if (s.step > steps - last) loss += s.loss;
      advance(model, seed, tokens, 3 * tokens, fmt::format(": loss {:.3f}", s.loss));
    });
    if (result.interrupted) {
      throw std::runtime_error(
          p_.save_study
              ? fmt::format("[extrapolate] interrupted; {} keeps what is finished, and the same study goes on.",
                            *p_.save_study)
              : "[extrapolate] interrupted.");
    }
    return loss / static_cast<double>(last);
  }

  void evaluate(const Transformer<float>& model, std::int64_t seed, std::vector<double>& scores) {
    for (const auto& [length, text] : asked_) {
      if (past_the_table(model.config(), length)) {
        scores.insert(scores.end(), n_scores, std::numeric_limits<double>::quiet_NaN());
        continue;
      }
      ForwardOptions options;
      options.threads = context_.threads;
      std::vector<double> nll;
      double right = 0;
      for (const ScoredToken& token :
           score_windows<float>(model, text, covering_chunks(text.size(), length), options)) {
        nll.push_back(token.nll);
        right += token.right;
      }
      const MeanLoss loss = mean_loss(nll);
      const auto tokens = static_cast<double>(loss.tokens), read = static_cast<double>(text.size());
      scores.insert(scores.end(), {loss.mean_nll, right / tokens, tokens});
      advance(model, seed, read, read, " evaluated");
    }
  }

  static Row row_of(const TransformerConfig& config, const Variant& variant, std::int64_t seed, std::int64_t length,
                    std::span<const double> scores) {
    Row row;
    row.encoding = variant.encoding;
    row.scaling = variant.scaling;
    row.extra_steps = variant.extra_steps;
    row.seed = seed;
    row.length = length;
    if (const std::optional<std::string> refused = past_the_table(config, length)) {
      row.note = *refused;
      return row;
    }
    row.mean_nll = scores[0];
    row.accuracy = scores[1];
    row.tokens = static_cast<std::int64_t>(scores[2]);
    return row;
  }

  // Fills what the rows of one variant say about its seeds, alone and beside the first encoding's.
  void compare(std::vector<Row>& rows) {
    for (const auto& asked : asked_) {
      const std::int64_t length = asked.first;
      std::vector<double> values, differences;
      for (const Row& row : rows) {
        if (row.length != length || !row.mean_nll) continue;
        values.push_back(*row.mean_nll);
        const auto base = base_.find({row.seed, length});
        if (base != base_.end()) differences.push_back(*row.mean_nll - base->second);
      }
      const ConfidenceInterval all = confidence_interval(values), paired = confidence_interval(differences);
      for (Row& row : rows) {
        if (row.length != length || values.empty()) continue;
        row.mean = all.mean;
        row.low = all.low;
        row.high = all.high;
        if (differences.empty()) continue;
        row.difference = paired.mean;
        row.difference_low = paired.low;
        row.difference_high = paired.high;
      }
    }
    if (!base_.empty()) return;
    for (const Row& row : rows) {
      if (row.mean_nll) base_[{row.seed, row.length}] = *row.mean_nll;
    }
  }

  TypedReport<Summary, Row> finish() {
    report_.summary = summary_;
    std::string text = fmt::format("Trained on {} at {} tokens, {} steps, {} seeds; nats/token, mean over the seeds:\n",
                                   summary_.resolved_text, p_.seq_len, p_.steps, p_.seeds.size());
    Picture picture;
    picture.title = fmt::format("trained at {} tokens", p_.seq_len);
    picture.x_label = "length (tokens)";
    picture.y_label = "mean_nll (nats/token)";
    bool scaled = false, noted = false;
    for (const Variant& variant : variants_) {
      Series series{variant.name(), {}, {}};
      text += fmt::format("{:>24}:", series.name);
      for (const Row& row : report_.rows) {
        const bool same = row.encoding == variant.encoding && row.scaling == variant.scaling &&
                          row.extra_steps == variant.extra_steps;
        if (!same || row.seed != p_.seeds.front()) continue;
        text +=
            row.mean ? fmt::format("  {}: {:.3f}", row.length, *row.mean) : fmt::format("  {}: refused", row.length);
        noted = noted || !row.note.empty();
        if (!row.mean) continue;
        series.x.push_back(static_cast<double>(row.length));
        series.y.push_back(*row.mean);
      }
      text += '\n';
      scaled = scaled || variant.scaling;
      picture.series.push_back(std::move(series));
    }
    text +=
        fmt::format("A uniform guess scores {:.3f}; low and high say how far the seeds spread.", summary_.chance_nll);
    report_.conclusion = std::move(text);
    report_.pictures.push_back(std::move(picture));
    report_.columns = {"encoding"};
    if (scaled) report_.columns.insert(report_.columns.end(), {"scaling", "extra_steps"});
    report_.columns.insert(report_.columns.end(),
                           {"seed", "train_loss", "length", "mean_nll", "accuracy", "tokens", "mean", "low", "high"});
    if (variants_.size() > 1) {
      report_.columns.insert(report_.columns.end(), {"difference", "difference_low", "difference_high"});
    }
    if (noted) report_.columns.push_back("note");
    return std::move(report_);
  }

  const Params& p_;
  const RunContext& context_;
  const StudyMaterial material_;
  std::map<std::int64_t, EvaluationText> asked_;                  // by length
  std::map<std::pair<std::int64_t, std::int64_t>, double> base_;  // by seed and length: the first variant's loss
  std::vector<Variant> variants_;
  double work_ = 0, done_ = 0;  // tokens; see work_of
  TokenRate rate_;
  std::map<std::string, std::string> made_with_;
  Summary summary_;
  TypedReport<Summary, Row> report_;
};

TypedReport<Summary, Row> run(const Params& p, const RunContext& context) {
  check(p);
  return Study(p, context).run();
}

Experiment describe_extrapolate() {
  Experiment e = describe<Params, Summary, Row>(
      "extrapolate", "Trained on short texts, how does each encoding do on longer ones?",
      "poslab extrapolate --encodings none,learned,rope --seeds 0,1 --steps 60", run);
  e.stops_at_signal = true;
  return e;
}

const Registrar registrar("extrapolate", describe_extrapolate);

}  // namespace
}  // namespace poslab
