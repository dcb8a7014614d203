#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/experiment.h"
#include "experiments/rope_params.h"
#include "experiments/stretch.h"
#include "poslab/model_configs/rope_keys.h"
#include "poslab/rope/ggml.h"
#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

using Json = nlohmann::ordered_json;

constexpr RopeHelp help{.rope_type = "plan this method only; absent: every method whose parameters are there",
                        .original_max_position_embeddings =
                            "length of pre-training; absent: the model's, else max_position_embeddings, else "
                            "4096 (an error where rope_theta or the head's width is given)",
                        .factor = "how many times longer; absent: max(1, seq_len / original length)"};

const RopeFallbacks fallbacks{.original_max_position_embeddings = 4096};

struct Params {
  RopeParams rope;
  std::optional<std::int64_t> seq_len;

  static void fields(auto& self, auto&& field) {
    RopeParams::fields(self.rope, field, help);
    field("seq_len", self.seq_len, "length to reach; absent: factor * original length, else 4 times what is read now",
          "tokens");
  }
};

struct Summary {
  double trained_length = 0;
  std::int64_t target_length = 0;
  double resolved_factor = 1, resolved_rope_theta = 0;
  std::int64_t resolved_rotary_dim = 0;
  std::vector<std::string> covering, warnings;

  static void fields(auto& self, auto&& field) {
    field("trained_length", self.trained_length, "length of pre-training", "tokens");
    field("target_length", self.target_length, "length to reach", "tokens");
    field("resolved_factor", self.resolved_factor, "factor of every method");
    field("resolved_rope_theta", self.resolved_rope_theta, "base of the model");
    field("resolved_rotary_dim", self.resolved_rotary_dim, "channels that turn", "channels");
    field("covering", self.covering, "methods under which no pair leaves the angles seen in training");
    field("warnings", self.warnings, "what to know about these parameters");
  }
};

struct Row {
  std::string method;
  std::optional<std::string> hf_rope_scaling;
  std::optional<std::int64_t> hf_max_position_embeddings;
  std::optional<std::string> llama_cpp_flags, vllm_override;
  double cos_sin_multiplier = 1, logit_multiplier = 1, fastest_multiplier = 1, score_change = 0;
  std::string leaving_pairs;
  std::optional<double> first_uncovered_position;
  std::string short_text_cost, note;

  static void fields(auto& self, auto&& field) {
    field("method", self.method, "how the frequencies are scaled; abf is a plain change of base");
    field("hf_rope_scaling", self.hf_rope_scaling, "rope_scaling of config.json (null: transformers has no such type)");
    field("hf_max_position_embeddings", self.hf_max_position_embeddings, "max_position_embeddings beside it", "tokens");
    field("llama_cpp_flags", self.llama_cpp_flags, "command-line flags of llama.cpp (null: no flag does this)");
    field("vllm_override", self.vllm_override, "command-line flags of vLLM (null: it has no such type)");
    field("cos_sin_multiplier", self.cos_sin_multiplier, "attention factor, on queries and on keys");
    field("logit_multiplier", self.logit_multiplier, "net effect on the logits, at every length");
    field("fastest_multiplier", self.fastest_multiplier,
          "what is left of the turn between neighbours on the fastest pair");
    field("score_change", self.score_change,
          "largest change of the score curve at distances within training, at the target length");
    field("leaving_pairs", self.leaving_pairs, "pairs that leave the angles seen in training before the target");
    field("first_uncovered_position", self.first_uncovered_position,
          "first position where one does (null: none ever does)", "tokens");
    field("short_text_cost", self.short_text_cost, "what texts within the trained length pay");
    field("note", self.note, "what the engines do differently");
  }
};

// One method with everything its rows and texts are made of.
struct Method {
  std::string name;
  ResolvedRope rope;
  RopeFrequencies scaled;
  Stretch stretch;
  double theta = 0;  // in effect
};

bool is_abf(const Method& m) { return m.name == "abf"; }
// A new base and nothing else, abf's among them.
bool changes_base(const Method& m) { return is_abf(m) || m.rope.scaling.rope_type->theta; }
bool fixed_base(const Method& m) {
  return changes_base(m) && m.rope.scaling.rope_type->follows_length == FollowsLength::no;
}

// The keys that a scaled set adds to rope_scaling; theta and the share of channels stay where the config has them.
Json hf_keys(RopeScaling s) {
  s.original_max_position_embeddings = original_length(s);
  return rope_keys(s, RopeKeys::needed);
}

Json with_new_base(double theta) { return {{"rope_type", "default"}, {"rope_theta", theta}}; }

bool known_to_transformers(const Method& m) {
  const RopeScaling& s = m.rope.scaling;
  return !s.rope_type->config.unnamed || s.rope_type->config.unnamed(s).empty();
}

void plan_transformers(const Method& m, Row& row) {
  if (!known_to_transformers(m)) return;
  row.hf_rope_scaling = (fixed_base(m) ? with_new_base(m.theta) : hf_keys(m.rope.scaling)).dump();
  // Some types read the trained length from it; the others state what may be read.
  row.hf_max_position_embeddings = m.rope.scaling.rope_type->trained_on_stated_length
                                       ? static_cast<std::int64_t>(m.stretch.trained_length)
                                       : m.rope.target_length;
}

void plan_llama_cpp(const Method& m, Row& row) {
  const std::optional<GgmlRope> ggml = to_ggml(m.rope.scaling, m.rope.seq_len);
  if (!ggml) return;
  const auto own_flags = m.rope.scaling.rope_type->engines.llama_cpp_flags;
  const std::string flags = is_abf(m) ? llama_cpp_base_flags(*ggml) : own_flags ? own_flags(*ggml) : "";
  row.llama_cpp_flags = flags + fmt::format("--ctx-size {}", m.rope.target_length);
}

// The share of head_dim that truncates to rotary_dim.
double rotary_share(const RopeScaling& s) {
  const double share = static_cast<double>(s.rotary_dim) / static_cast<double>(s.head_dim);
  return std::trunc(static_cast<double>(s.head_dim) * share) < static_cast<double>(s.rotary_dim)
             ? std::nextafter(share, 1)
             : share;
}

void plan_vllm(const Method& m, Row& row) {
  const RopeScaling& s = m.rope.scaling;
  const EngineForm& engines = s.rope_type->engines;
  if (!known_to_transformers(m) || !engines.in_vllm) return;
  Json parameters = changes_base(m) ? with_new_base(m.theta) : hf_keys(s);
  parameters["rope_theta"] = changes_base(m) ? m.theta : s.rope_theta;
  if (s.rotary_dim != s.head_dim) parameters["partial_rotary_factor"] = rotary_share(s);
  // MLA models read the mscales as Hugging Face does; every other class multiplies its own formula by attn_factor.
  if (engines.attention_formula && m.rope.softmax_multiplier == 1) {
    const double multiplier = m.scaled.attention_factor / engines.attention_formula(*s.factor);
    for (const char* unread : {"attention_factor", "mscale", "mscale_all_dim"}) parameters.erase(unread);
    if (std::abs(multiplier - 1) > 1e-12) parameters["attn_factor"] = multiplier;
  }
  Json overrides{{"rope_parameters", parameters}};
  if (!engines.vllm_multiplies_length) overrides["max_position_embeddings"] = m.rope.target_length;
  row.vllm_override = fmt::format("--hf-overrides '{}' --max-model-len {}", overrides.dump(), m.rope.target_length);
}

std::string short_text_cost(const Method& m, const Row& row) {
  if (const auto own = m.rope.scaling.rope_type->engines.short_text_cost) return own(m.stretch.trained_length);
  std::vector<std::string> parts;
  if (row.fastest_multiplier < 1 - 1e-12) {
    parts.push_back(fmt::format("neighbours turn only {:.4g} of what they did", row.fastest_multiplier));
  }
  if (row.logit_multiplier != 1) parts.push_back(fmt::format("logits times {:.4g}", row.logit_multiplier));
  parts.push_back(fmt::format("score curve moved by up to {:.2g}", row.score_change));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string note_of(const Method& m) {
  const auto note = is_abf(m) ? ntk_scaling.engines.note : m.rope.scaling.rope_type->engines.note;
  return note ? note(m.rope.scaling, m.scaled.attention_factor, m.rope.target_length) : "";
}

// The parameters of one method: the flags, the model below them, and a factor for the target in place of the model's.
Method make_method(const Params& params, RopeType type, const Summary& lengths) {
  RopeParams p = params.rope;
  const std::int64_t target = lengths.target_length;
  p.rope_type = type;
  p.factor = lengths.resolved_factor;
  if (type->trained_on_stated_length) p.max_position_embeddings = static_cast<std::int64_t>(lengths.trained_length);
  Method m;
  m.name = to_word(type);
  m.rope = resolve_rope(p, fallbacks, target);
  // The model's own belongs to the factor that it was trained with.
  if (!params.rope.attention_factor) m.rope.scaling.attention_factor.reset();
  m.scaled = resolved_frequencies(m.rope);
  m.stretch = compare_frequencies(m.rope.scaling, m.scaled, m.rope.trained_theta, static_cast<double>(target));
  m.theta = effective_theta(m.rope);
  return m;
}

// A new base alone, by Liu et al.'s rule: the slowest trained pair ends where it ended in training.
Method make_abf(const Params& params, const Summary& lengths) {
  Method m = make_method(params, RopeType(), lengths);
  m.name = "abf";
  m.theta = critical_theta(m.rope.trained_theta, m.stretch.trained_length,
                           std::max(m.stretch.trained_length, m.stretch.target_length));
  m.rope.scaling.rope_theta = m.theta;
  m.scaled = resolved_frequencies(m.rope);
  m.stretch = compare_frequencies(m.rope.scaling, m.scaled, m.rope.trained_theta, m.stretch.target_length);
  return m;
}

Row make_row(const Method& m) {
  Row row;
  row.method = m.name;
  plan_transformers(m, row);
  plan_llama_cpp(m, row);
  plan_vllm(m, row);
  row.cos_sin_multiplier = m.scaled.attention_factor;
  row.logit_multiplier = m.scaled.attention_factor * m.scaled.attention_factor * m.rope.softmax_multiplier;
  row.fastest_multiplier = m.stretch.pairs.front().multiplier();
  row.score_change = m.stretch.score_change();
  row.leaving_pairs = index_ranges(m.stretch.uncovered_pairs());
  row.first_uncovered_position = m.stretch.first_uncovered_position();
  row.short_text_cost = short_text_cost(m, row);
  row.note = note_of(m);
  return row;
}

std::string conclude(const Summary& s, const std::vector<Row>& rows) {
  std::string text =
      fmt::format("From {} to {} tokens: factor {:.6g}.\n", s.trained_length, s.target_length, s.resolved_factor);
  if (s.resolved_factor == 1) text += "The model was trained on as much: nothing needs to change.\n";
  for (const Row& row : rows) {
    text += fmt::format("{:<13} {}; short texts: {}.\n", row.method,
                        row.leaving_pairs.empty() ? "stays inside the trained angles"
                                                  : fmt::format("pairs {} leave the trained angles from position {}",
                                                                row.leaving_pairs, *row.first_uncovered_position),
                        row.short_text_cost);
  }
  text +=
      "Static methods pay at every length: take the factor from the length you really read. Angles that training "
      "covered "
      "are needed, not enough: measure the loss before trusting a method.";
  return text;
}

TypedReport<Summary, Row> run(const Params& params, const RunContext&) {
  // The model or the flags as they are, for the lengths, with a type that needs them.
  RopeParams as_is = params.rope;
  as_is.rope_type = as_is.model ? std::nullopt : std::optional<RopeType>(yarn_scaling);
  const ResolvedRope now = resolve_rope(as_is, fallbacks, params.seq_len);
  TypedReport<Summary, Row> report;
  Summary& s = report.summary;
  s.trained_length = original_length(now.scaling);
  s.target_length = params.seq_len.value_or(now.target_length);
  if (!params.seq_len && params.rope.model) {
    s.target_length =
        params.rope.factor ? static_cast<std::int64_t>(s.trained_length * *params.rope.factor) : 4 * now.target_length;
  }
  s.resolved_factor =
      params.rope.factor.value_or(std::max(1.0, static_cast<double>(s.target_length) / s.trained_length));
  s.resolved_rope_theta = now.scaling.rope_theta;
  s.resolved_rotary_dim = now.scaling.rotary_dim;
  s.warnings = now.warnings;

  Picture picture;
  picture.title = "multiplier of each pair's frequency";
  picture.x_label = "pair";
  picture.y_label = "scaled / unscaled";
  const auto add = [&](const Method& m) {
    report.rows.push_back(make_row(m));
    if (m.stretch.uncovered_pairs().empty()) s.covering.push_back(m.name);
    Series series{m.name, {}, {}};
    for (std::size_t i = 0; i < m.stretch.pairs.size(); ++i) {
      if (m.stretch.pairs[i].before == 0) continue;
      series.x.push_back(static_cast<double>(i));
      series.y.push_back(m.stretch.pairs[i].multiplier());
    }
    picture.series.push_back(std::move(series));
  };
  for (const Scaling* row : all_scalings) {
    const RopeType type = *row;
    if (!type.is_scaled()) continue;
    if (params.rope.rope_type ? type != *params.rope.rope_type : row->only_when_asked) continue;
    try {
      add(make_method(params, type, s));
    } catch (const RopeTypeUnavailable& e) {
      if (params.rope.rope_type) throw;
      s.warnings.push_back(fmt::format("{} is left out: {}", row->word, e.reason()));
    }
  }
  if (!params.rope.rope_type || !params.rope.rope_type->is_scaled()) add(make_abf(params, s));
  report.conclusion = conclude(s, report.rows);
  report.pictures.push_back(std::move(picture));
  return report;
}

Experiment describe_plan() {
  return describe<Params, Summary, Row>("plan",
                                        "What do I set so that a model reads longer texts, and what does it cost?",
                                        "poslab plan --model llama-2-7b --seq-len 32768", run);
}

const Registrar registrar("plan", describe_plan);

}  // namespace
}  // namespace poslab
