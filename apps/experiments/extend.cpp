#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/experiment.h"
#include "experiments/rope_params.h"
#include "experiments/stretch.h"
#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

constexpr RopeHelp help{.rope_type = "how the frequencies are scaled; absent: the model's, else yarn",
                        .original_max_position_embeddings =
                            "length of pre-training; absent: the model's, else max_position_embeddings, else 4096 (an "
                            "error where rope_theta "
                            "or the head's width is given and the type needs it)"};

const RopeFallbacks fallbacks{.rope_type = yarn_scaling, .original_max_position_embeddings = 4096};

struct Params {
  RopeParams rope;
  std::optional<std::int64_t> seq_len;
  std::optional<double> trained_rope_theta;

  static void fields(auto& self, auto&& field) {
    RopeParams::fields(self.rope, field, help);
    field(
        "seq_len", self.seq_len,
        "length to reach, which length-dependent scalings look at; absent: the model as loaded, else factor * original "
        "length, else 4 * original length",
        "tokens");
    field("trained_rope_theta", self.trained_rope_theta,
          "base of training, when rope_theta is a new one (ABF); absent: the model's, else rope_theta");
  }
};

enum class Region { kept, blended, stretched };
constexpr auto words(Region) {
  return word_table<Region>({{Region::kept, "kept"}, {Region::blended, "blended"}, {Region::stretched, "stretched"}});
}

struct Summary {
  RopeType resolved_rope_type;
  std::optional<std::string> resolved_layer_type;
  double resolved_rope_theta = 0;
  std::int64_t resolved_rotary_dim = 0;
  std::optional<double> resolved_factor;
  double trained_length = 0;
  std::int64_t target_length = 0;
  double attention_factor = 1, softmax_multiplier = 1, logit_multiplier = 1;
  std::int64_t kept = 0, blended = 0, stretched = 0;
  std::optional<double> effective_theta;
  std::int64_t uncovered = 0;
  std::optional<double> first_uncovered_position;
  double score_change = 0;
  bool depends_on_seq_len = false;
  std::vector<std::string> warnings;

  static void fields(auto& self, auto&& field) {
    field("resolved_rope_type", self.resolved_rope_type, "the scaling in effect");
    field("resolved_layer_type", self.resolved_layer_type, "the model's set in effect (null: it has one)");
    field("resolved_rope_theta", self.resolved_rope_theta, "base that the scaling starts from");
    field("resolved_rotary_dim", self.resolved_rotary_dim, "channels that turn", "channels");
    field("resolved_factor", self.resolved_factor, "factor in effect");
    field("trained_length", self.trained_length, "length of pre-training", "tokens");
    field("target_length", self.target_length, "length looked at", "tokens");
    field("attention_factor", self.attention_factor, "multiplies cos and sin, in queries and in keys");
    field("softmax_multiplier", self.softmax_multiplier, "multiplies the softmax scale (MLA models)");
    field("logit_multiplier", self.logit_multiplier,
          "net effect on the logits: attention_factor^2 * softmax_multiplier");
    field("kept", self.kept, "pairs whose multiplier is 1", "pairs");
    field("blended", self.blended, "pairs between", "pairs");
    field("stretched", self.stretched, "pairs slowed by the whole factor", "pairs");
    field("effective_theta", self.effective_theta, "the base after the change (null: it does not change)");
    field("uncovered", self.uncovered, "pairs that leave the angles seen in training before target_length", "pairs");
    field("first_uncovered_position", self.first_uncovered_position,
          "first position where a pair leaves the angles seen in training (null: none ever does)", "tokens");
    field("score_change", self.score_change,
          "largest change of the score curve, the mean of cos(distance * inv_freq), at distances within training");
    field("depends_on_seq_len", self.depends_on_seq_len, "other lengths give other frequencies");
    field("warnings", self.warnings, "what to know about these parameters");
  }
};

struct Row {
  std::int64_t pair = 0;
  std::optional<double> wavelength;
  double turns_in_training = 0, inv_freq = 0, scaled_inv_freq = 0;
  std::optional<double> multiplier;
  std::optional<Region> region;
  double max_angle_trained = 0, max_angle_target = 0;
  bool covered = false;

  static void fields(auto& self, auto&& field) {
    field("pair", self.pair, "index i of the pair");
    field("wavelength", self.wavelength, "length of one turn before scaling (null: the pair stands still)", "tokens");
    field("turns_in_training", self.turns_in_training, "turns within the trained length", "turns");
    field("inv_freq", self.inv_freq, "before scaling", "rad/token");
    field("scaled_inv_freq", self.scaled_inv_freq, "after scaling", "rad/token");
    field("multiplier", self.multiplier, "scaled_inv_freq / inv_freq (null: the pair stands still)");
    field("region", self.region, "kept: multiplier 1; stretched: 1/factor; blended: between");
    field("max_angle_trained", self.max_angle_trained, "largest angle in training, at its last position", "radians");
    field("max_angle_target", self.max_angle_target, "largest angle at the target, at its last position", "radians");
    field("covered", self.covered,
          "the pair made a whole turn in training, or its angles at the target stay in the trained range");
  }
};

std::optional<Region> region_of(const Pair& pair, std::optional<double> factor) {
  if (pair.before == 0) return std::nullopt;
  if (std::abs(pair.multiplier() - 1) <= 1e-12) return Region::kept;
  if (factor && pair.multiplier() * *factor - 1 <= 1e-12) return Region::stretched;
  return Region::blended;
}

std::string describe_length(const Summary& s) {
  if (!s.depends_on_seq_len) return "Static: the same at every length, so short texts pay the price too.";
  return s.resolved_rope_type->length_note(s.effective_theta.value_or(s.resolved_rope_theta), s.target_length,
                                           s.trained_length);
}

std::string conclude(const Summary& s, const Stretch& stretch) {
  const auto pairs = static_cast<std::int64_t>(stretch.pairs.size());
  std::string text =
      fmt::format("{}{} on {} pairs, base {}; trained on {} tokens, looked at up to {}.\n",
                  to_word(s.resolved_rope_type), s.resolved_factor ? fmt::format(" x{:.6g}", *s.resolved_factor) : "",
                  pairs, s.resolved_rope_theta, s.trained_length, s.target_length);
  const bool unchanged = s.kept == pairs && s.logit_multiplier == 1;
  text += unchanged ? "No pair changes.\n"
                    : fmt::format("Pairs kept as they were: {}; blended: {}; slowed by the whole factor: {}.\n", s.kept,
                                  s.blended, s.stretched);
  if (s.effective_theta) text += fmt::format("The base becomes {:.8g}.\n", *s.effective_theta);
  if (s.uncovered == 0) {
    text += "Every pair stays inside the angles that training covered.\n";
  } else {
    text += fmt::format("Pairs {} meet angles never seen in training, from position {} on.\n",
                        index_ranges(stretch.uncovered_pairs()), *s.first_uncovered_position);
  }
  if (s.logit_multiplier != 1) {
    const std::string softmax =
        s.softmax_multiplier == 1 ? "" : fmt::format(", the softmax scale by {:.6g}", s.softmax_multiplier);
    text += fmt::format("cos and sin are multiplied by {:.6g}{}: every logit by {:.6g}.\n", s.attention_factor, softmax,
                        s.logit_multiplier);
  }
  if (!unchanged) {
    text +=
        fmt::format("Within the trained length the score curve moves by up to {:.3g} (1 = its height at distance 0).\n",
                    s.score_change);
  }
  if (!unchanged || s.depends_on_seq_len) text += describe_length(s);
  return text;
}

std::vector<Picture> draw(const Stretch& stretch, const Summary& summary) {
  Picture pairs;
  pairs.title = fmt::format("{}: multiplier of each pair's frequency", to_word(summary.resolved_rope_type));
  pairs.x_label = "pair";
  pairs.y_label = "scaled / unscaled";
  Series multipliers{"multiplier", {}, {}};
  for (std::size_t i = 0; i < stretch.pairs.size(); ++i) {
    if (stretch.pairs[i].before == 0) continue;
    multipliers.x.push_back(static_cast<double>(i));
    multipliers.y.push_back(stretch.pairs[i].multiplier());
  }
  if (!multipliers.y.empty()) pairs.series.push_back(std::move(multipliers));

  Picture curve;
  curve.title = "score of two equal vectors against their distance";
  curve.x_label = "distance (tokens)";
  curve.y_label = "mean cos";
  Series before{"unscaled", {}, {}}, after{"scaled", {}, {}};
  constexpr double shown = 128;  // further out the curve of whole distances looks like noise
  for (double d = 0; d < shown; ++d) {
    before.y.push_back(mean_cosine(stretch, d, &Pair::before));
    after.y.push_back(mean_cosine(stretch, d, &Pair::after));
  }
  curve.series = {std::move(before), std::move(after)};

  std::vector<Picture> pictures;
  if (!pairs.series.empty()) pictures.push_back(std::move(pairs));
  pictures.push_back(std::move(curve));
  return pictures;
}

TypedReport<Summary, Row> run(const Params& params, const RunContext&) {
  if (params.trained_rope_theta && !(*params.trained_rope_theta > 0)) {
    throw std::invalid_argument(
        fmt::format("[extend] trained_rope_theta must be above 0 but got {}.", *params.trained_rope_theta));
  }
  const ResolvedRope rope = resolve_rope(params.rope, fallbacks, params.seq_len);
  const RopeScaling& scaling = rope.scaling;
  const RopeFrequencies scaled = resolved_frequencies(rope);
  const double trained_theta = params.trained_rope_theta.value_or(rope.trained_theta);
  const Stretch stretch = compare_frequencies(scaling, scaled, trained_theta, static_cast<double>(rope.target_length));

  TypedReport<Summary, Row> report;
  Summary& s = report.summary;
  s.resolved_rope_type = scaling.rope_type;
  if (!rope.layer_type.empty()) s.resolved_layer_type = rope.layer_type;
  s.resolved_rope_theta = scaling.rope_theta;
  s.resolved_rotary_dim = scaling.rotary_dim;
  if (scaling.rope_type->uses_factor) s.resolved_factor = scaling.factor;
  s.trained_length = stretch.trained_length;
  s.target_length = rope.target_length;
  s.attention_factor = scaled.attention_factor;
  s.softmax_multiplier = rope.softmax_multiplier;
  s.logit_multiplier = s.attention_factor * s.attention_factor * s.softmax_multiplier;
  const double theta = effective_theta(rope);
  if (theta != trained_theta) s.effective_theta = theta;
  s.uncovered = static_cast<std::int64_t>(stretch.uncovered_pairs().size());
  s.first_uncovered_position = stretch.first_uncovered_position();
  s.score_change = stretch.score_change();
  s.depends_on_seq_len = scaling.rope_type->follows_length != FollowsLength::no;
  s.warnings = rope.warnings;

  for (std::size_t i = 0; i < stretch.pairs.size(); ++i) {
    const Pair& pair = stretch.pairs[i];
    Row row;
    row.pair = static_cast<std::int64_t>(i);
    row.inv_freq = pair.before;
    row.scaled_inv_freq = pair.after;
    row.turns_in_training = stretch.turns(pair);
    if (pair.before != 0) {
      row.wavelength = 2 * std::numbers::pi / pair.before;
      row.multiplier = pair.multiplier();
    }
    row.region = region_of(pair, s.resolved_factor);
    row.max_angle_trained = (stretch.trained_length - 1) * pair.before;
    row.max_angle_target = (stretch.target_length - 1) * pair.after;
    row.covered = stretch.covered(pair);
    s.kept += row.region == Region::kept;
    s.blended += row.region == Region::blended;
    s.stretched += row.region == Region::stretched;
    report.rows.push_back(row);
  }
  report.conclusion = conclude(s, stretch);
  report.pictures = draw(stretch, s);
  return report;
}

Experiment describe_extend() {
  Experiment experiment =
      describe<Params, Summary, Row>("extend", "What does a context extension do to each rotary pair?",
                                     "poslab extend --model llama-2-7b --rope-type yarn --seq-len 32768", run);
  experiment.excluded = [](const Record& record) {
    const auto params = from_record<Params>(record);
    return rope_type_left_out(params.rope, fallbacks, params.seq_len);
  };
  return experiment;
}

const Registrar registrar("extend", describe_extend);

}  // namespace
}  // namespace poslab
