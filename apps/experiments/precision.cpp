#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "experiments/experiment.h"
#include "poslab/core/random.h"
#include "poslab/core/threads.h"
#include "poslab/rope/distinct_positions.h"
#include "poslab/rope/numeric_profile.h"
#include "poslab/rope/rope.h"

namespace poslab {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t max_position = std::int64_t{1} << 53;  // the last one before doubles skip integers

struct Params {
  std::vector<std::string> profiles = {"f32_table", "hf_f32", "ggml_f32", "bf16_table", "bf16_angle", "bf16_position"};
  std::vector<std::int64_t> positions = {1000, 100000, 10000000};
  std::int64_t seq_len = 8192;
  double rope_theta = 10000;
  std::int64_t head_dim = 128;
  RopeLayout layout = RopeLayout::half;
  std::int64_t gap = 3;
  std::int64_t n_scores = 256;
  std::int64_t seed = 1;

  static void fields(auto& self, auto&& field) {
    std::vector<std::string> words;
    for (const ProfileWord& entry : profile_words()) words.push_back(entry.word);
    field("profiles", self.profiles,
          fmt::format("how cos and sin are computed, '+' joins a pipeline with casts: {}", fmt::join(words, ", ")));
    field("positions", self.positions, "where errors are measured and score offsets stand", "tokens");
    field("seq_len", self.seq_len, "positions 0 .. seq_len - 1 are counted and searched for colliding neighbours",
          "tokens");
    field("rope_theta", self.rope_theta, "base of the frequencies: inv_freq = rope_theta^(-2i/head_dim)");
    field("head_dim", self.head_dim, "channels of a query, all of which are rotated", "channels");
    field("layout", self.layout, "which channels form pair i: (2i, 2i+1) or (i, i + head_dim/2)");
    field("gap", self.gap, "a score's query stands at offset + gap, its key at offset", "tokens");
    field("n_scores", self.n_scores, "random query-key pairs whose scores are watched; 0 leaves the scores out");
    field("seed", self.seed, "seed of the queries and keys, normal in f32: all queries, then all keys");
  }
};

struct Summary {
  std::vector<std::int64_t> distinct_positions;
  std::vector<double> first_collision;
  std::int64_t reference_bits = std::numeric_limits<long double>::digits;

  static void fields(auto& self, auto&& field) {
    field("distinct_positions", self.distinct_positions,
          "by profile: how many different rows of cos and sin the first seq_len positions have", "positions");
    field("first_collision", self.first_collision,
          "by profile: the first position whose row equals the next one's; null when there is none", "tokens");
    field("reference_bits", self.reference_bits,
          "significand of the long double in which the exact angles, cos and sin are taken", "bits");
  }
};

struct Row {
  std::string profile;
  std::int64_t position = 0;
  double max_abs_error = 0;
  std::optional<std::int64_t> worst_pair;
  double max_angle_error = 0;
  std::optional<double> score_drift, score_error, score_error_rms;

  static void fields(auto& self, auto&& field) {
    field("profile", self.profile, "how cos and sin are computed");
    field("position", self.position, "the position, and the offset of the scores", "tokens");
    field("max_abs_error", self.max_abs_error,
          "largest error of a stored cos or sin; null where the type overflows and gives NaN");
    field("worst_pair", self.worst_pair, "the pair that has it, the first of equals");
    field("max_angle_error", self.max_angle_error, "largest error of an angle that goes into cos and sin", "radians");
    field("score_drift", self.score_drift, "largest |score(offset) - score(0)| of the same pipeline");
    field("score_error", self.score_error, "largest |score(offset) - exact score of the stored queries and keys|");
    field("score_error_rms", self.score_error_rms, "its root mean square over the pairs");
  }
};

// Queries and keys [n_scores, head_dim], as drawn.
struct Vectors {
  std::vector<double> queries, keys;
};

Vectors draw_vectors(const Params& p) {
  Generator rng(p.seed);
  Vectors v{rng.normals(p.n_scores * p.head_dim), rng.normals(p.n_scores * p.head_dim)};
  for (double& x : v.queries) x = round_to(DType::f32, x);
  for (double& x : v.keys) x = round_to(DType::f32, x);
  return v;
}

// The exact scores of the queries and keys as `type` stores them; they know the gap alone.
std::vector<double> exact_scores(const Params& p, const Vectors& v, DType type, const ExactRope& exact) {
  std::vector<double> scores;
  for (std::int64_t n = 0; n < p.n_scores; ++n) {
    const auto channel = [&](const std::vector<double>& x, std::int64_t c) -> long double {
      return round_to(type, x[n * p.head_dim + c]);
    };
    long double score = 0;
    for (std::int64_t i = 0; i < exact.n_pairs(); ++i) {
      const auto [a, b] = rope_pair_channels(p.layout, p.head_dim, i);
      const long double angle = exact.angle(static_cast<double>(p.gap), i);
      const long double x = channel(v.queries, a), y = channel(v.queries, b);
      score += (x * std::cos(angle) - y * std::sin(angle)) * channel(v.keys, a) +
               (x * std::sin(angle) + y * std::cos(angle)) * channel(v.keys, b);
    }
    scores.push_back(static_cast<double>(score));
  }
  return scores;
}

// Rotates [n, head_dim] to one position the way the profile does: each product and sum rounded, then the results.
std::vector<double> rotate(const Params& p, const ProfiledRope& rope, std::vector<double> x, std::int64_t position) {
  const DType arithmetic = rope.profile().rotation;
  const DType stored = rope.profile().vectors;
  std::vector<double> cos(rope.n_pairs()), sin(rope.n_pairs());
  rope.cos_sin(static_cast<double>(position), cos, sin);
  for (std::size_t row = 0; row < x.size(); row += p.head_dim) {
    for (std::int64_t i = 0; i < rope.n_pairs(); ++i) {
      const auto [a, b] = rope_pair_channels(p.layout, p.head_dim, i);
      const double first = round_to(stored, x[row + a]);
      const double second = round_to(stored, x[row + b]);
      // In double these products and sums, rounded, are what the narrower arithmetic gives.
      const auto combine = [&](double u, double v) {
        return round_to(stored, round_to(arithmetic, round_to(arithmetic, u) + round_to(arithmetic, v)));
      };
      x[row + a] = combine(first * cos[i], -second * sin[i]);
      x[row + b] = combine(second * cos[i], first * sin[i]);
    }
  }
  return x;
}

std::vector<double> profile_scores(const Params& p, const Vectors& v, const ProfiledRope& rope, std::int64_t offset) {
  const auto queries = rotate(p, rope, v.queries, offset + p.gap);
  const auto keys = rotate(p, rope, v.keys, offset);
  std::vector<double> scores(p.n_scores);
  for (std::size_t i = 0; i < keys.size(); ++i) scores[i / p.head_dim] += queries[i] * keys[i];
  return scores;
}

// The larger, where NaN is larger than anything.
double worse(double a, double b) { return a > b || std::isnan(a) ? a : b; }

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = worse(std::abs(a[i] - b[i]), largest);
  return largest;
}

// Fills what the row says about cos, sin and angles.
void measure_errors(const ProfiledRope& rope, const ExactRope& exact, Row& row) {
  const auto position = static_cast<double>(row.position);
  for (std::int64_t i = 0; i < exact.n_pairs(); ++i) {
    const long double truth = exact.angle(position, i);
    const double angle = rope.angle(position, i);
    const CosSin stored = rope.turn(angle);
    const auto error =
        static_cast<double>(std::max(std::abs(stored.cos - std::cos(truth)), std::abs(stored.sin - std::sin(truth))));
    if (!std::isfinite(stored.cos) || !std::isfinite(stored.sin)) {
      row.max_abs_error = nan;
    } else if (i == 0 || error > row.max_abs_error) {
      row.max_abs_error = error;
      row.worst_pair = i;
    }
    const auto angle_error = static_cast<double>(std::abs(angle - truth));
    row.max_angle_error = worse(angle_error, row.max_angle_error);
  }
  if (std::isnan(row.max_abs_error)) row.worst_pair.reset();
}

void check(const Params& p) {
  const auto refuse = [](const std::string& text) { throw std::invalid_argument("[precision] " + text); };
  if (p.profiles.empty()) refuse("profiles must name at least one profile.");
  if (p.gap < 0 || p.gap > max_position) refuse(fmt::format("gap must be between 0 and 2^53 but got {}.", p.gap));
  for (std::int64_t position : p.positions) {
    if (position < 0 || position > max_position - p.gap) {
      refuse(fmt::format("positions must be between 0 and 2^53 - gap but got {}.", position));
    }
  }
  if (p.head_dim < 2 || p.head_dim % 2 != 0 || p.head_dim > 65536) {
    refuse(fmt::format("head_dim must be even and between 2 and 65536 but got {}.", p.head_dim));
  }
  if (p.n_scores < 0 || p.n_scores > (std::int64_t{1} << 26) / p.head_dim) {
    refuse(fmt::format("n_scores must be between 0 and {} at head_dim {} but got {}.",
                       (std::int64_t{1} << 26) / p.head_dim, p.head_dim, p.n_scores));
  }
}

Picture error_picture(const Params& p, const std::vector<Row>& rows) {
  Picture picture;
  picture.title = "largest error of cos and sin";
  picture.x_label = "position (log10 tokens)";
  picture.y_label = "error";
  picture.log_y = true;
  for (std::size_t f = 0; f < p.profiles.size(); ++f) {
    Series series{p.profiles[f], {}, {}};
    for (std::size_t i = 0; i < p.positions.size(); ++i) {
      const Row& row = rows[f * p.positions.size() + i];
      if (row.position == 0 || !(row.max_abs_error > 0)) continue;
      series.x.push_back(std::log10(static_cast<double>(row.position)));
      series.y.push_back(row.max_abs_error);
    }
    if (!series.x.empty()) picture.series.push_back(std::move(series));
  }
  return picture;
}

std::string conclude(const Params& p, const Summary& s, const std::vector<Row>& rows) {
  std::string text;
  if (!p.positions.empty()) {
    const auto farthest = std::max_element(p.positions.begin(), p.positions.end()) - p.positions.begin();
    std::size_t width = 0;
    for (const std::string& name : p.profiles) width = std::max(width, name.size());
    text += fmt::format("Largest error of cos and sin at position {}:\n", p.positions[farthest]);
    for (std::size_t f = 0; f < p.profiles.size(); ++f) {
      const Row& row = rows[f * p.positions.size() + static_cast<std::size_t>(farthest)];
      text +=
          fmt::format("  {:{}}  {:<8.2g} {}\n", row.profile, width, row.max_abs_error, profile_meaning(row.profile));
    }
  }
  std::string losers;
  for (std::size_t f = 0; f < p.profiles.size(); ++f) {
    if (s.distinct_positions[f] == p.seq_len) continue;
    losers +=
        fmt::format("{} keeps {} of the first {} positions apart", p.profiles[f], s.distinct_positions[f], p.seq_len);
    if (!std::isnan(s.first_collision[f])) {
      losers += fmt::format(" ({} and {} are the first neighbours that collide)", s.first_collision[f],
                            s.first_collision[f] + 1);
    }
    losers += ".\n";
  }
  text += losers.empty() ? fmt::format("Every profile keeps the first {} positions apart.\n", p.seq_len) : losers;
  text +=
      "An angle rounded before cos and sin is off by a share of itself, so the error grows with the position; a table "
      "rounded afterwards has the same small error everywhere.";
  return text;
}

TypedReport<Summary, Row> run(const Params& p, const RunContext& context) {
  check(p);
  const ExactRope exact(p.head_dim, p.rope_theta);
  std::vector<ProfiledRope> ropes;
  for (const std::string& name : p.profiles) ropes.emplace_back(numeric_profile(name), p.head_dim, p.rope_theta);
  const auto n_profiles = static_cast<std::int64_t>(ropes.size());
  const auto n_positions = static_cast<std::int64_t>(p.positions.size());

  TypedReport<Summary, Row> report;
  for (std::int64_t f = 0; f < n_profiles; ++f) {
    const auto share = [&](double part) {
      context.progress(0.9 * (static_cast<double>(f) + part) / static_cast<double>(n_profiles));
    };
    const DistinctPositions distinct = distinct_positions(ropes[f], p.seq_len, context.threads, share);
    report.summary.distinct_positions.push_back(distinct.count);
    report.summary.first_collision.push_back(distinct.first_collision ? static_cast<double>(*distinct.first_collision)
                                                                      : nan);
  }

  const Vectors vectors = draw_vectors(p);
  std::vector<std::vector<double>> truth(n_profiles), at_zero(n_profiles);
  parallel_for(n_profiles, context.threads, [&](std::int64_t f) {
    truth[f] = exact_scores(p, vectors, ropes[f].profile().vectors, exact);
    at_zero[f] = profile_scores(p, vectors, ropes[f], 0);
  });
  report.rows.resize(n_profiles * n_positions);
  std::mutex mutex;
  std::int64_t done = 0;
  parallel_for(n_profiles * n_positions, context.threads, [&](std::int64_t index) {
    Row& row = report.rows[index];
    const std::int64_t f = index / n_positions;
    row.profile = p.profiles[f];
    row.position = p.positions[index % n_positions];
    measure_errors(ropes[f], exact, row);
    if (p.n_scores > 0) {
      const std::vector<double> scores = profile_scores(p, vectors, ropes[f], row.position);
      double squares = 0;
      for (std::size_t i = 0; i < scores.size(); ++i) {
        squares += (scores[i] - truth[f][i]) * (scores[i] - truth[f][i]);
      }
      row.score_drift = largest_difference(scores, at_zero[f]);
      row.score_error = largest_difference(scores, truth[f]);
      row.score_error_rms = std::sqrt(squares / static_cast<double>(p.n_scores));
    }
    const std::lock_guard lock(mutex);
    context.progress(0.9 + 0.1 * static_cast<double>(++done) / static_cast<double>(n_profiles * n_positions));
  });
  report.columns = {"profile", "position", "max_abs_error", "worst_pair", "max_angle_error"};
  if (p.n_scores > 0) report.columns.insert(report.columns.end(), {"score_drift", "score_error", "score_error_rms"});
  report.pictures.push_back(error_picture(p, report.rows));
  report.conclusion = conclude(p, report.summary, report.rows);
  return report;
}

Experiment describe_precision() {
  return describe<Params, Summary, Row>("precision", "What does rounding on the way to cos and sin do to positions?",
                                        "poslab precision --profiles hf_f32,f64+bf16_table --positions 1000,100000",
                                        run);
}

const Registrar registrar("precision", describe_precision);

}  // namespace
}  // namespace poslab
