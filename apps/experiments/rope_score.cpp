#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "experiments/experiment.h"
#include "experiments/rope_params.h"
#include "poslab/core/numbers.h"
#include "poslab/core/random.h"
#include "poslab/core/ranges.h"
#include "poslab/rope/rope.h"
#include "poslab/rope/rope_bound.h"

namespace poslab {
namespace {

enum class Vectors { seeded, ones };
constexpr auto words(Vectors) { return word_table<Vectors>({{Vectors::seeded, "seeded"}, {Vectors::ones, "ones"}}); }

const std::vector<std::string> lesson_placements = {"5:2", "105:102", "1005:1002", "7:2"};

constexpr RopeHelp help{
    .head_dim = "values in query and key; absent: the model's, else the length of the query or key given, else 16"};

struct Params {
  std::vector<std::string> placements = lesson_placements;
  std::optional<std::string> distances;
  Vectors vectors = Vectors::seeded;
  std::optional<std::vector<double>> query, key;
  std::int64_t seed = 1;
  std::optional<RopeLayout> layout;
  RopeParams rope;
  std::optional<std::int64_t> seq_len;
  bool per_pair = false;

  static void fields(auto& self, auto&& field) {
    field("placements", self.placements, "positions as query:key pairs, each 0 or more", "tokens");
    field("distances", self.distances,
          "query minus key as a,b,c or first:last:+step or first:last:*factor; absent: use placements", "tokens");
    field("vectors", self.vectors, "query and key: normal draws from the seed (query first), or all ones");
    field("query", self.query, "values of the query; absent: from vectors");
    field("key", self.key, "values of the key; absent: from vectors");
    field("seed", self.seed, "seed of the draws");
    field("layout", self.layout,
          "which channels form pair i: (2i, 2i+1) or (i, i + rotary_dim/2); absent: the model's, else interleaved");
    RopeParams::fields(self.rope, field, help);
    field("seq_len", self.seq_len, "length that length-dependent scalings look at; absent: the model as loaded",
          "tokens");
    field("per_pair", self.per_pair, "add every pair's share of the score");
  }
};

struct Summary {
  std::optional<double> max_spread_at_equal_distance;
  double unrotated_score = 0;
  double still_share = 0;
  double min_score = 0, max_score = 0;
  std::int64_t resolved_head_dim = 0, resolved_rotary_dim = 0;
  double attention_factor = 1;
  std::vector<std::string> warnings;

  static void fields(auto& self, auto&& field) {
    field("max_spread_at_equal_distance", self.max_spread_at_equal_distance,
          "largest difference among placements of equal distance (null: no distance occurs twice)");
    field("unrotated_score", self.unrotated_score,
          "query times key without any rotation: the score at distance 0 where attention_factor is 1");
    field("still_share", self.still_share, "part of every score that comes from channels that are not rotated");
    field("min_score", self.min_score, "smallest score");
    field("max_score", self.max_score, "largest score");
    field("resolved_head_dim", self.resolved_head_dim, "values in query and key", "channels");
    field("resolved_rotary_dim", self.resolved_rotary_dim, "channels that were rotated", "channels");
    field("attention_factor", self.attention_factor,
          "what the scaling multiplies rotated channels by, in query and key");
    field("warnings", self.warnings, "what to know about these parameters");
  }
};

struct Row {
  std::int64_t query_position = 0, key_position = 0, distance = 0;
  double score = 0;
  std::optional<double> decay_bound;
  std::vector<double> pair_scores;

  static void fields(auto& self, auto&& field) {
    field("query_position", self.query_position, "place of the query", "tokens");
    field("key_position", self.key_position, "place of the key", "tokens");
    field("distance", self.distance, "query_position - key_position", "tokens");
    field("score", self.score, "rotated query times rotated key");
    field("decay_bound", self.decay_bound, "RoFormer's bound, the mean of |S_j| (where query and key are equal)");
    field("pair_scores", self.pair_scores, "each pair's share of the score");
  }
};

struct Placement {
  std::int64_t query, key;
  std::int64_t distance() const { return query - key; }
};

// Beyond 2^53 a double no longer tells neighbouring positions apart.
constexpr std::int64_t max_position = std::int64_t{1} << 53;

std::int64_t checked_position(std::int64_t position) {
  if (position < 0 || position > max_position) {
    throw std::invalid_argument(fmt::format("[rope-score] a position must be 0 .. 2^53 but got {}.", position));
  }
  return position;
}

Placement parse_placement(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) {
    throw std::invalid_argument(
        fmt::format("[rope-score] placement '{}' must be query:key, two positions as in 5:2.", text));
  }
  constexpr std::string_view what = "[rope-score] placements";
  return {checked_position(parse_integer(std::string_view(text).substr(0, colon), what)),
          checked_position(parse_integer(std::string_view(text).substr(colon + 1), what))};
}

// The nearest placement with this distance: one of the two stands at 0.
Placement at_distance(std::int64_t distance) {
  if (distance < -max_position || distance > max_position) {
    throw std::invalid_argument(fmt::format("[rope-score] a distance must be -2^53 .. 2^53 but got {}.", distance));
  }
  return {std::max<std::int64_t>(distance, 0), std::max<std::int64_t>(-distance, 0)};
}

// One query and one key under one rotation.
class Scorer {
 public:
  Scorer(std::vector<double> query, std::vector<double> key, RopeFrequencies frequencies, RopeLayout layout)
      : query_(std::move(query)), key_(std::move(key)), frequencies_(std::move(frequencies)), layout_(layout) {}

  std::int64_t head_dim() const { return static_cast<std::int64_t>(query_.size()); }
  std::int64_t rotary_dim() const { return 2 * static_cast<std::int64_t>(frequencies_.inv_freq.size()); }
  double attention_factor() const { return frequencies_.attention_factor; }
  bool equal_vectors() const { return query_ == key_; }
  // The product of the channels from `first` on, as they are.
  double unrotated_score(std::int64_t first) const;
  // What rounding can do to a score this far out: an angle is right to half an ulp of position * inv_freq.
  double rounding(double position) const;
  Row row(Placement place, bool per_pair) const;

 private:
  std::vector<double> query_, key_;
  RopeFrequencies frequencies_;
  RopeLayout layout_;
};

double Scorer::unrotated_score(std::int64_t first) const {
  double score = 0;
  for (auto c = static_cast<std::size_t>(first); c < query_.size(); ++c) score += query_[c] * key_[c];
  return score;
}

double Scorer::rounding(double position) const {
  double size = 0;
  for (std::size_t c = 0; c < query_.size(); ++c) size += std::abs(query_[c] * key_[c]);
  return 4 * std::numeric_limits<double>::epsilon() * attention_factor() * attention_factor() *
         (position + static_cast<double>(query_.size())) * size;
}

Row Scorer::row(Placement place, bool per_pair) const {
  const auto rotated = [&](const std::vector<double>& x, std::int64_t position) {
    std::vector<double> out(x.size());
    const double at[] = {static_cast<double>(position)};
    apply_rope<double>(x, out, 1, head_dim(), at, frequencies_.inv_freq, layout_, attention_factor());
    return out;
  };
  const std::vector<double> q = rotated(query_, place.query);
  const std::vector<double> k = rotated(key_, place.key);
  Row row{place.query, place.key, place.distance(), 0, std::nullopt, {}};
  for (std::int64_t i = 0; i < rotary_dim() / 2; ++i) {
    const auto [a, b] = rope_pair_channels(layout_, rotary_dim(), i);
    const double share = q[a] * k[a] + q[b] * k[b];
    row.score += share;
    if (per_pair) row.pair_scores.push_back(share);
  }
  row.score += unrotated_score(rotary_dim());
  if (equal_vectors()) row.decay_bound = decay_bound(frequencies_.inv_freq, static_cast<double>(place.distance()));
  return row;
}

Scorer make_scorer(const Params& p, const ResolvedRope& rope) {
  const std::int64_t head_dim = rope.scaling.head_dim;
  std::vector<double> query, key;
  if (p.vectors == Vectors::ones) {
    query.assign(static_cast<std::size_t>(head_dim), 1.0);
    key = query;
  } else {
    Generator generator(p.seed);
    query = generator.normals(head_dim);
    key = generator.normals(head_dim);
  }
  if (p.query) query = *p.query;
  if (p.key) key = *p.key;
  const auto fits = [&](const std::vector<double>& v) { return static_cast<std::int64_t>(v.size()) == head_dim; };
  if (!fits(query) || !fits(key)) {
    throw std::invalid_argument(fmt::format("[rope-score] query has {} values and key {}, but both need head_dim {}.",
                                            query.size(), key.size(), head_dim));
  }
  return {std::move(query), std::move(key), resolved_frequencies(rope),
          p.layout.value_or(rope.layout.value_or(RopeLayout::interleaved))};
}

// Scores of the placements by distance, in the order given.
using ByDistance = std::map<std::int64_t, std::vector<const Row*>>;

std::string placements_conclusion(const ByDistance& groups, const Summary& s, double rounding) {
  constexpr std::size_t shown = 8;
  std::string text;
  std::size_t n = 0;
  for (const auto& [distance, rows] : groups) {
    if (++n > shown) {
      text += fmt::format("... and {} more distances.\n", groups.size() - shown);
      break;
    }
    text += fmt::format("Distance {}: score {:.4f}, query and key at ", distance, rows.front()->score);
    for (std::size_t i = 0; i < std::min(rows.size(), shown); ++i) {
      text += fmt::format("{}({}, {})", i == 0 ? "" : ", ", rows[i]->query_position, rows[i]->key_position);
    }
    text += rows.size() > shown ? ", ...\n" : "\n";
  }
  if (!s.max_spread_at_equal_distance) {
    return text + "No distance occurs twice; add placements of equal distance (5:2,105:102) to see that they agree.";
  }
  if (*s.max_spread_at_equal_distance <= rounding) {
    return text + fmt::format(
                      "Equal distances score the same (largest difference {:.1e}, which is rounding): the "
                      "score sees the gap between two words and not their places.",
                      *s.max_spread_at_equal_distance);
  }
  return text + fmt::format("Equal distances differ by up to {:.1e}, more than rounding explains.",
                            *s.max_spread_at_equal_distance);
}

constexpr std::int64_t max_picture_points = 400;

// The scores of up to max_picture_points of `count` rows, the first and the last among them.
Picture curve(const Scorer& scorer, std::int64_t count, const std::function<Placement(std::int64_t)>& place_at) {
  Picture picture;
  picture.title = "score of one query and one key against their distance";
  picture.x_label = "distance (tokens)";
  picture.y_label = "score";
  Series scores{"score", {}, {}}, bounds{"RoFormer's bound", {}, {}};
  const std::int64_t points = std::min(count, max_picture_points);
  for (std::int64_t i = 0; i < points; ++i) {
    const Row row = scorer.row(place_at(points == 1 ? 0 : i * (count - 1) / (points - 1)), false);
    scores.x.push_back(static_cast<double>(row.distance));
    scores.y.push_back(row.score);
    if (row.decay_bound) {
      bounds.x.push_back(static_cast<double>(row.distance));
      bounds.y.push_back(*row.decay_bound);
    }
  }
  picture.series.push_back(std::move(scores));
  if (!bounds.x.empty()) picture.series.push_back(std::move(bounds));
  return picture;
}

void score_placements(const Params& p, const Scorer& scorer, TypedReport<Summary, Row>& report) {
  if (p.placements.empty()) {
    throw std::invalid_argument("[rope-score] placements is empty; give query:key pairs as in 5:2.");
  }
  std::int64_t nearest = 0, farthest = 32, outermost = 0;
  for (const std::string& text : p.placements) {
    const Placement place = parse_placement(text);
    report.rows.push_back(scorer.row(place, p.per_pair));
    nearest = std::min(nearest, place.distance());
    farthest = std::max(farthest, place.distance());
    outermost = std::max({outermost, place.query, place.key});
  }
  ByDistance groups;
  for (const Row& row : report.rows) groups[row.distance].push_back(&row);
  Summary& s = report.summary;
  for (const auto& [distance, rows] : groups) {
    const auto [low, high] =
        std::minmax_element(rows.begin(), rows.end(), [](const Row* a, const Row* b) { return a->score < b->score; });
    if (rows.size() > 1) {
      s.max_spread_at_equal_distance =
          std::max(s.max_spread_at_equal_distance.value_or(0), (*high)->score - (*low)->score);
    }
    s.min_score = distance == groups.begin()->first ? (*low)->score : std::min(s.min_score, (*low)->score);
    s.max_score = distance == groups.begin()->first ? (*high)->score : std::max(s.max_score, (*high)->score);
  }
  report.conclusion = placements_conclusion(groups, s, scorer.rounding(static_cast<double>(outermost)));
  report.pictures.push_back(
      curve(scorer, farthest - nearest + 1, [nearest](std::int64_t i) { return at_distance(nearest + i); }));
}

void score_distances(const Params& p, Scorer scorer, TypedReport<Summary, Row>& report) {
  const auto range = Range<std::int64_t>::parse(*p.distances, "[rope-score] distances");
  Summary& s = report.summary;
  std::int64_t lowest_at = 0, highest_at = 0;
  for (std::int64_t i = 0; i < range.size(); ++i) {
    const Row row = scorer.row(at_distance(range.at(i)), false);
    if (i == 0 || row.score < s.min_score) {
      s.min_score = row.score;
      lowest_at = row.distance;
    }
    if (i == 0 || row.score > s.max_score) {
      s.max_score = row.score;
      highest_at = row.distance;
    }
  }
  report.conclusion =
      fmt::format("{} distances: the score is highest at {} ({:.4f}) and lowest at {} ({:.4f}).\n", range.size(),
                  highest_at, s.max_score, lowest_at, s.min_score) +
      (scorer.equal_vectors()
           ? "Equal query and key: all pairs agree at distance 0 and fall out of step as the gap grows, so the score "
             "decays, unevenly.\nRoFormer's bound (decay_bound, the mean of |S_j|, on a scale of its own) falls with "
             "it."
           : "Different query and key: no decay has to show, since each pair starts from an angle of its own.\n"
             "Use --vectors ones to see the decay that the rotation alone brings.");
  report.pictures.push_back(curve(scorer, range.size(), [&range](std::int64_t i) { return at_distance(range.at(i)); }));
  report.row_count = range.size();
  report.make_row = [scorer = std::move(scorer), range, per_pair = p.per_pair](std::int64_t i) {
    return scorer.row(at_distance(range.at(i)), per_pair);
  };
}

TypedReport<Summary, Row> run(const Params& p, const RunContext&) {
  RopeFallbacks fallbacks;
  const auto given = p.query ? p.query : p.key;
  fallbacks.head_dim = given ? static_cast<std::int64_t>(given->size()) : 16;
  const ResolvedRope rope = resolve_rope(p.rope, fallbacks, p.seq_len);
  const Scorer scorer = make_scorer(p, rope);

  TypedReport<Summary, Row> report;
  report.columns = {"query_position", "key_position", "distance", "score"};
  if (scorer.equal_vectors()) report.columns.push_back("decay_bound");
  if (p.per_pair) report.columns.push_back("pair_scores");
  Summary& s = report.summary;
  s.resolved_head_dim = scorer.head_dim();
  s.resolved_rotary_dim = scorer.rotary_dim();
  s.attention_factor = scorer.attention_factor();
  s.still_share = scorer.unrotated_score(scorer.rotary_dim());
  s.unrotated_score = scorer.unrotated_score(0);
  s.warnings = rope.warnings;
  if (!p.distances) {
    score_placements(p, scorer, report);
  } else if (p.placements == lesson_placements) {
    score_distances(p, scorer, report);
  } else {
    throw std::invalid_argument("[rope-score] placements and distances exclude each other; give one of them.");
  }
  return report;
}

Experiment describe_rope_score() {
  return describe<Params, Summary, Row>("rope-score", "On what does the score of a rotated query and key depend?",
                                        "poslab rope-score --vectors ones --head-dim 128 --distances 0:512:+1", run);
}

const Registrar registrar("rope-score", describe_rope_score);

}  // namespace
}  // namespace poslab
