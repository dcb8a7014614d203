#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/experiment.h"
#include "experiments/rope_params.h"
#include "poslab/rope/rope.h"
#include "poslab/rope/rope_bound.h"

namespace poslab {
namespace {

constexpr std::int64_t max_seq_len = 1 << 24;
constexpr std::int64_t search_up_to = 1 << 20, islands_up_to = 1 << 14;

struct Params {
  RopeParams rope;
  std::optional<std::int64_t> seq_len;
  std::optional<double> trained_rope_theta;
  std::vector<std::int64_t> distances = {0, 1, 10, 100, 1000, 10000};
  std::optional<bool> search, islands;

  static void fields(auto& self, auto&& field) {
    RopeParams::fields(self.rope, field);
    field("seq_len", self.seq_len,
          "length to judge, up to 16777216; absent: what the model or the flags reach, else 4096", "tokens");
    field("trained_rope_theta", self.trained_rope_theta, "base of pre-training, for critical_dim; absent: rope_theta");
    field("distances", self.distances, "where to give the cosine sum and the decay bound", "tokens");
    field("search", self.search, "look for the smallest base; absent: yes up to seq_len 1048576");
    field("islands", self.islands,
          "look for every feasible base, in time that grows as seq_len^2; absent: yes up to seq_len 16384");
  }
};

enum class Verdict { feasible, infeasible };
constexpr auto words(Verdict) {
  return word_table<Verdict>({{Verdict::feasible, "feasible"}, {Verdict::infeasible, "infeasible"}});
}

// A published table of smallest bases for head_dim 128.
struct Published {
  std::string_view source;
  struct Entry {
    std::int64_t seq_len;
    double base;
  } entries[11];
};
constexpr Published men = {"Men et al. 2024 (arXiv:2405.14591, table 2)",
                           {{1024, 4.3e3},
                            {2048, 1.6e4},
                            {4096, 2.7e4},
                            {8192, 8.4e4},
                            {16384, 3.1e5},
                            {32768, 6.4e5},
                            {65536, 2.1e6},
                            {131072, 7.8e6},
                            {262144, 3.6e7},
                            {524288, 6.4e7},
                            {1048576, 5.1e8}}};
constexpr Published su = {"Su (kexue.fm/archives/10122)",
                          {{1024, 4.3e3},
                           {2048, 1.2e4},
                           {4096, 2.7e4},
                           {8192, 8.4e4},
                           {16384, 2.3e5},
                           {32768, 6.3e5},
                           {65536, 2.1e6},
                           {131072, 4.9e6},
                           {262144, 2.4e7},
                           {524288, 5.8e7},
                           {1048576, 6.5e7}}};

struct Summary {
  Verdict verdict = Verdict::feasible;
  std::int64_t judged_seq_len = 0;
  RopeType resolved_rope_type;
  double resolved_rope_theta = 0;
  std::int64_t resolved_rotary_dim = 0;
  std::optional<std::int64_t> first_negative;
  std::optional<double> smallest_base, always_feasible_above;
  std::optional<std::int64_t> island_count;
  std::optional<double> unproved;
  std::string searched;
  std::optional<double> published_men, published_su;
  std::optional<bool> men_reproduces, su_reproduces;
  std::optional<std::int64_t> critical_dim;
  std::optional<double> t_extra, ntk_base, log_base, slowest_wavelength;
  std::int64_t full_turns = 0;
  std::vector<double> cosine_sum, decay_bound;
  std::vector<std::string> warnings;

  static void fields(auto& self, auto&& field) {
    field("verdict", self.verdict, "whether B(m) >= 0 at every distance m below the judged length");
    field("judged_seq_len", self.judged_seq_len, "length judged", "tokens");
    field("resolved_rope_type", self.resolved_rope_type, "the scaling in effect");
    field("resolved_rope_theta", self.resolved_rope_theta, "base that the scaling starts from");
    field("resolved_rotary_dim", self.resolved_rotary_dim, "channels that are rotated", "channels");
    field("first_negative", self.first_negative, "first distance with B(m) < 0 (null: none below 2^24)", "tokens");
    field("smallest_base", self.smallest_base,
          "infimum of the bases above 1 with B(m) >= 0 at every m below the judged length, for plain RoPE of this "
          "rotary_dim (null: not searched, or none)");
    field("always_feasible_above", self.always_feasible_above,
          "base from which all larger ones are feasible too (null: not searched)");
    field("island_count", self.island_count, "feasible ranges of bases, one row each (null: not searched)");
    field("unproved", self.unproved,
          "width in ln(base) of the steps decided within rounding error; all other bases were decided by proof");
    field("searched", self.searched, "how the bases were searched and what that proves");
    field("published_men", self.published_men, "smallest base printed by Men et al. 2024, table 2, for this length");
    field("published_su", self.published_su, "smallest base printed by Su, kexue.fm/archives/10122, for this length");
    field("men_reproduces", self.men_reproduces, "smallest_base rounds to published_men");
    field("su_reproduces", self.su_reproduces, "smallest_base rounds to published_su");
    field("critical_dim", self.critical_dim,
          "channels whose pairs made a full rotation in pre-training, 2 ceil(d/2 log_base(length / 2 pi))", "channels");
    field("t_extra", self.t_extra, "2 pi rope_theta^(critical_dim/d): how far fine-tuning with rope_theta reaches",
          "tokens");
    field("ntk_base", self.ntk_base, "base by the NTK formula, from the original to the judged length");
    field("log_base", self.log_base,
          "base by the critical dimension, base^(ln(length / 2 pi) / ln(original length / 2 pi))");
    field("slowest_wavelength", self.slowest_wavelength,
          "length of the slowest pair's rotation (null: a pair stands still)", "tokens");
    field("full_turns", self.full_turns, "pairs that make a full rotation within the judged length", "pairs");
    field("cosine_sum", self.cosine_sum, "B(m) = sum_i cos(m * inv_freq_i) at each of `distances`");
    field("decay_bound", self.decay_bound, "RoFormer's bound on a score, mean of |S_j|, at each of `distances`");
    field("warnings", self.warnings, "what to know about these parameters");
  }
};

struct Row {
  double base_from = 1;
  std::optional<double> base_to;

  static void fields(auto& self, auto&& field) {
    field("base_from", self.base_from, "smallest base of a feasible island");
    field("base_to", self.base_to, "end of the island (null: every larger base is feasible)");
  }
};

void check(const Params& p) {
  if (p.seq_len && (*p.seq_len < 1 || *p.seq_len > max_seq_len)) {
    throw std::invalid_argument(fmt::format("[bound] seq_len must be 1 .. {} but got {}.", max_seq_len, *p.seq_len));
  }
  if (p.trained_rope_theta && !(*p.trained_rope_theta > 1)) {
    throw std::invalid_argument(
        fmt::format("[bound] trained_rope_theta must be above 1 but got {}.", *p.trained_rope_theta));
  }
  for (std::int64_t m : p.distances) {
    if (m < 0) throw std::invalid_argument(fmt::format("[bound] distances must be at least 0 but one is {}.", m));
  }
  if (p.islands.value_or(false) && !p.search.value_or(true)) {
    throw std::invalid_argument("[bound] islands are found by the search for bases: give --islands or --no-search.");
  }
}

std::optional<double> published_base(const Published& table, std::int64_t rotary_dim, std::int64_t seq_len) {
  if (rotary_dim != 128) return std::nullopt;
  for (const auto& entry : table.entries) {
    if (entry.seq_len == seq_len) return entry.base;
  }
  return std::nullopt;
}

// Published values have two digits.
bool rounds_to(double value, double printed) { return fmt::format("{:.1e}", value) == fmt::format("{:.1e}", printed); }

std::optional<bool> reproduces(std::optional<double> smallest, std::optional<double> printed) {
  if (!smallest || !printed) return std::nullopt;
  return rounds_to(*smallest, *printed);
}

// What depends on the base of pre-training and its length alone (Liu et al. 2024).
void judge_training(const Params& p, const RopeScaling& scaling, Summary& s) {
  const double length = scaling.original_max_position_embeddings.value_or(static_cast<double>(s.judged_seq_len));
  const double trained = p.trained_rope_theta.value_or(scaling.rope_theta);
  if (!(trained > 1)) return;
  const double dim = static_cast<double>(s.resolved_rotary_dim);
  s.critical_dim = critical_dim(s.resolved_rotary_dim, trained, length);
  s.t_extra = extrapolation_length(s.resolved_rotary_dim, scaling.rope_theta, *s.critical_dim);
  const double target = static_cast<double>(s.judged_seq_len);
  constexpr double full_rotation = 2 * std::numbers::pi;
  if (length < target && length > full_rotation) {
    if (s.resolved_rotary_dim > 2) s.ntk_base = trained * std::pow(target / length, dim / (dim - 2));
    s.log_base = std::pow(trained, std::log(target / full_rotation) / std::log(length / full_rotation));
  }
}

void search_bases(const Params& p, const RunContext& context, Summary& s, std::vector<Row>& rows) {
  const bool even = s.resolved_rotary_dim % 2 == 0;
  const bool wanted = p.search.value_or(p.islands.value_or(s.judged_seq_len <= search_up_to));
  if (!even || !wanted) {
    s.searched = even ? "no base but this one" : "no base but this one: rotary_dim is odd";
    return;
  }
  const bool all = p.islands.value_or(s.judged_seq_len <= islands_up_to);
  const auto search = all ? feasible_bases : smallest_base;
  const BaseSearch found = search(s.resolved_rotary_dim, s.judged_seq_len, context.threads, context.progress);
  s.smallest_base = found.smallest;
  s.unproved = found.unproved;
  s.searched = fmt::format(
      "every real base {}, in leaps over which Taylor's theorem forbids B(m) a change of sign; steps of 1e-13 to 1e-9 "
      "in ln(base) where |B(m)| is below its rounding error",
      all ? "above 1" : "from 1 to smallest_base: each below it fails at some m");
  s.published_men = published_base(men, s.resolved_rotary_dim, s.judged_seq_len);
  s.published_su = published_base(su, s.resolved_rotary_dim, s.judged_seq_len);
  s.men_reproduces = reproduces(s.smallest_base, s.published_men);
  s.su_reproduces = reproduces(s.smallest_base, s.published_su);
  if (!all) return;
  s.island_count = static_cast<std::int64_t>(found.islands.size());
  for (const BaseIsland& island : found.islands) rows.push_back({island.from, island.to});
  if (!found.islands.empty()) s.always_feasible_above = found.islands.back().from;
}

std::string judge_published(const Published& table, const Summary& s, double printed, bool agrees, int threads) {
  if (agrees) return fmt::format("{}: {:.6g}, reproduced.\n", table.source, printed);
  std::vector<double> inv_freq = rope_inv_freq(s.resolved_rotary_dim, printed);
  const auto fails = first_negative(inv_freq, s.judged_seq_len, threads);
  return fmt::format("{}: {:.6g} does NOT reproduce: the smallest is {:.6g}; {:.6g} itself {}.\n", table.source,
                     printed, *s.smallest_base, printed,
                     fails ? fmt::format("fails at m = {}", *fails) : "is feasible but not the smallest");
}

std::string conclude(const Summary& s, int threads) {
  std::string text;
  if (!s.first_negative) {
    text += "B(m), the score of two equal vectors at distance m, stays at 0 or above up to 2^24 tokens.\n";
  } else {
    text += fmt::format(
        "B(m), the score of two equal vectors at distance m, first falls below 0 at m = {}: there a key like the query "
        "scores below a random one. {} tokens are {}.\n",
        *s.first_negative, s.judged_seq_len,
        s.verdict == Verdict::feasible ? "within reach of this base" : "too many for these frequencies");
  }
  if (s.smallest_base) {
    text += fmt::format("The smallest base for {} tokens is {:.9g}.", s.judged_seq_len, *s.smallest_base);
    if (s.island_count == 1) {
      text += " Every larger base is feasible too.";
    } else if (s.always_feasible_above) {
      text += fmt::format(
          " A larger base can fail again: there are {} feasible islands, and only from {:.9g} on are all bases "
          "feasible.",
          *s.island_count, *s.always_feasible_above);
    } else {
      text += " A larger base can fail again; --islands finds where.";
    }
    text += fmt::format("\nProved but for steps that add up to {:.1e} in ln(base).\n", *s.unproved);
  } else if (s.unproved) {
    text += "No base is feasible at this length.\n";
  }
  if (s.men_reproduces) text += judge_published(men, s, *s.published_men, *s.men_reproduces, threads);
  if (s.su_reproduces) text += judge_published(su, s, *s.published_su, *s.su_reproduces, threads);
  if (s.ntk_base && s.log_base) {
    text += fmt::format("Formulas for the same length: NTK {:.6g}, critical dimension {:.6g}; no law, compare.\n",
                        *s.ntk_base, *s.log_base);
  }
  if (s.critical_dim) {
    text += fmt::format(
        "In pre-training {} of {} channels made a full rotation; fine-tuned with this base they reach {:.6g} "
        "tokens.\n",
        *s.critical_dim, s.resolved_rotary_dim, *s.t_extra);
  }
  text += "A bound from equal vectors is necessary, not sufficient: it says nothing about what training made of them.";
  return text;
}

Picture draw(const std::vector<double>& inv_freq, std::int64_t length) {
  Picture picture;
  picture.title = "cosine sum and decay bound against distance";
  picture.x_label = "distance (tokens)";
  picture.y_label = "sum";
  Series sum{"B(m)", {}, {}}, bound{"decay bound", {}, {}};
  constexpr std::int64_t points = 200;
  for (std::int64_t i = 0; i < points; ++i) {
    const double m = std::floor(static_cast<double>(length - 1) * static_cast<double>(i) / (points - 1));
    if (!sum.x.empty() && m == sum.x.back()) continue;
    sum.x.push_back(m);
    sum.y.push_back(cosine_sum(inv_freq, m));
    bound.y.push_back(decay_bound(inv_freq, m));
  }
  bound.x = sum.x;
  picture.series = {std::move(sum), std::move(bound)};
  return picture;
}

TypedReport<Summary, Row> run(const Params& params, const RunContext& context) {
  check(params);
  TypedReport<Summary, Row> report;
  Summary& s = report.summary;
  ResolvedRope rope = resolve_rope(params.rope, {}, params.seq_len);
  s.judged_seq_len = rope.target_length > 0 ? std::min(rope.target_length, max_seq_len) : 4096;
  // Once more for the length judged, which length-dependent scalings and an absent factor follow.
  if (!params.seq_len) rope = resolve_rope(params.rope, {}, s.judged_seq_len);
  const std::vector<double> inv_freq = resolved_frequencies(rope).inv_freq;
  s.resolved_rope_type = rope.scaling.rope_type;
  s.resolved_rope_theta = rope.scaling.rope_theta;
  s.resolved_rotary_dim = rope.scaling.rotary_dim;
  s.warnings = rope.warnings;

  s.first_negative = first_negative(inv_freq, max_seq_len, context.threads);
  const bool feasible = !s.first_negative || *s.first_negative >= s.judged_seq_len;
  s.verdict = feasible ? Verdict::feasible : Verdict::infeasible;
  judge_training(params, rope.scaling, s);
  search_bases(params, context, s, report.rows);

  const double slowest = *std::min_element(inv_freq.begin(), inv_freq.end());
  constexpr double full_rotation = 2 * std::numbers::pi;
  if (slowest > 0) s.slowest_wavelength = full_rotation / slowest;
  s.full_turns = std::count_if(inv_freq.begin(), inv_freq.end(),
                               [&](double w) { return w * static_cast<double>(s.judged_seq_len) >= full_rotation; });
  for (std::int64_t m : params.distances) {
    s.cosine_sum.push_back(cosine_sum(inv_freq, static_cast<double>(m)));
    s.decay_bound.push_back(decay_bound(inv_freq, static_cast<double>(m)));
  }
  report.conclusion = conclude(s, context.threads);
  report.pictures.push_back(draw(inv_freq, s.judged_seq_len));
  report.tensor.shape = {s.judged_seq_len};
  report.tensor.fill = [inv_freq](std::int64_t first, std::int64_t count, std::byte* out) {
    for (std::int64_t m = first; m < first + count; ++m, out += sizeof(double)) {
      const double sum = cosine_sum(inv_freq, static_cast<double>(m));
      std::memcpy(out, &sum, sizeof sum);
    }
  };
  return report;
}

Experiment describe_bound() {
  Experiment e = describe<Params, Summary, Row>(
      "bound", "How large must RoPE's base be for a length, and how long does a base last?",
      "poslab bound --rope-theta 500000 --seq-len 8192", run);
  e.verdicts = {"feasible", "infeasible"};
  e.excluded = [](const Record& record) {
    const Params params = from_record<Params>(record);
    return rope_type_left_out(params.rope, {}, params.seq_len);
  };
  return e;
}

const Registrar registrar("bound", describe_bound);

}  // namespace
}  // namespace poslab
