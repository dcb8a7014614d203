#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "experiments/experiment.h"
#include "poslab/core/narrow.h"
#include "poslab/core/random.h"
#include "poslab/formats/npy.h"
#include "poslab/methods/alibi.h"
#include "poslab/methods/learned.h"
#include "poslab/methods/relative_bias.h"
#include "poslab/methods/sinusoidal.h"
#include "poslab/report/matrix_views.h"
#include "poslab/rope/rope.h"

namespace poslab {
namespace {

enum class Encoding { sinusoidal, rope, alibi, t5, learned };
constexpr auto words(Encoding) {
  return word_table<Encoding>({{Encoding::sinusoidal, "sinusoidal"},
                               {Encoding::rope, "rope"},
                               {Encoding::alibi, "alibi"},
                               {Encoding::t5, "t5"},
                               {Encoding::learned, "learned"}});
}

struct Params {
  std::optional<Encoding> encoding;
  SinusoidalVariant variant = SinusoidalVariant::paper;
  std::optional<std::int64_t> seq_len, d_model;
  double base = 10000;
  std::int64_t head_dim = 16;
  std::optional<std::int64_t> rotary_dim;
  double rope_theta = 10000;
  RopeLayout layout = RopeLayout::interleaved;
  std::int64_t n_heads = 8;
  double alibi_bias_max = 8;
  bool bidirectional = true;
  std::int64_t num_buckets = 32, max_distance = 128;
  std::int64_t first_relative_position = -130, last_relative_position = 130;
  std::optional<FilePath> position_table;
  std::int64_t seed = 0;
  DType dtype = DType::f64;
  std::optional<std::int64_t> similar_to;
  std::int64_t top = 5;
  std::optional<FilePath> compare_with;

  static void fields(auto& self, auto&& field) {
    field("encoding", self.encoding, "whose table; absent: learned with position_table, else sinusoidal");
    field("variant", self.variant, "which sinusoidal formula; the last two are common mistakes");
    field("seq_len", self.seq_len,
          "positions 0 .. seq_len - 1 (distances for alibi); absent: the rows of position_table or compare_with, else "
          "64",
          "tokens");
    field("d_model", self.d_model,
          "length of a sinusoidal or learned vector; absent: the columns of position_table or compare_with, else 32",
          "channels");
    field("base", self.base, "base of the sinusoidal waves");
    field("head_dim", self.head_dim, "rope: channels of a head", "channels");
    field("rotary_dim", self.rotary_dim, "rope: channels that turn; absent: head_dim", "channels");
    field("rope_theta", self.rope_theta, "rope: base of the frequencies");
    field("layout", self.layout, "rope: where the cos and sin of a pair stand");
    field("n_heads", self.n_heads, "alibi: heads, any number", "heads");
    field("alibi_bias_max", self.alibi_bias_max, "alibi: the last slope is 2^-alibi_bias_max");
    field("bidirectional", self.bidirectional, "t5: keys after the query have buckets of their own");
    field("num_buckets", self.num_buckets, "t5: buckets for both directions", "buckets");
    field("max_distance", self.max_distance, "t5: from here on all distances share the last bucket", "tokens");
    field("first_relative_position", self.first_relative_position, "t5: first key minus query", "tokens");
    field("last_relative_position", self.last_relative_position, "t5: last key minus query", "tokens");
    field("position_table", self.position_table, "learned: a .npy of rows x columns; absent: drawn from seed");
    field("seed", self.seed, "learned: seed of the drawn table, normal with standard deviation 0.02");
    field("dtype", self.dtype, "element type that values are narrowed to, once (t5's buckets stay as they are)");
    field("similar_to", self.similar_to,
          "rank all positions by their vector's product with this one's, in f64; absent: no ranking", "tokens");
    field("top", self.top, "how many of the ranking to show", "positions");
    field("compare_with", self.compare_with, "your own table as .npy: how far it is, and which variant it fits best");
  }
};

struct Summary {
  Encoding resolved_encoding = Encoding::sinusoidal;
  std::string formula, source;
  std::int64_t n_rows = 0, n_values = 0;
  std::optional<double> shortest_wavelength, longest_wavelength;
  std::optional<std::vector<std::int64_t>> most_similar;
  std::optional<std::vector<double>> similarities;
  std::optional<std::vector<std::int64_t>> ties;
  std::optional<double> max_abs_diff;
  std::optional<std::int64_t> worst_position, worst_channel;
  std::optional<std::string> best_variant;
  std::optional<std::vector<std::string>> compared_variants;
  std::optional<std::vector<double>> compared_max_abs_diff;

  static void fields(auto& self, auto&& field) {
    field("resolved_encoding", self.resolved_encoding, "whose table this is");
    field("formula", self.formula, "how a value is computed; p is the position");
    field("source", self.source, "where the formula comes from");
    field("n_rows", self.n_rows, "rows of the table");
    field("n_values", self.n_values, "values in a row");
    field("shortest_wavelength", self.shortest_wavelength, "of the fastest wave", "tokens");
    field("longest_wavelength", self.longest_wavelength, "of the slowest wave", "tokens");
    field("most_similar", self.most_similar, "positions by similarity, best first, the lower first within a tie",
          "tokens");
    field("similarities", self.similarities, "product of each one's vector with that of similar_to");
    field("ties", self.ties,
          "rank of each: 1, 2, 2, 4, 4; equal distances tie by formula, in a learned table equal bits do");
    field("max_abs_diff", self.max_abs_diff, "largest difference from the table of compare_with");
    field("worst_position", self.worst_position, "where it is", "tokens");
    field("worst_channel", self.worst_channel, "where it is");
    field("best_variant", self.best_variant, "variant (rope: layout) that fits compare_with best");
    field("compared_variants", self.compared_variants, "what compare_with was compared to");
    field("compared_max_abs_diff", self.compared_max_abs_diff, "the largest difference from each");
  }
};

struct Row {
  std::optional<std::int64_t> position, head, relative_position, bucket;
  std::optional<double> slope;
  std::vector<double> values;

  static void fields(auto& self, auto&& field) {
    field("position", self.position, "place in the text", "tokens");
    field("head", self.head, "attention head");
    field("slope", self.slope, "penalty per token of distance", "score/token");
    field("relative_position", self.relative_position, "key minus query", "tokens");
    field("bucket", self.bucket, "which learned number is added to the score");
    field("values", self.values, "the position's vector; alibi: the bias at distances 0, 1, 2, ...");
  }
};

using Table = TypedReport<Summary, Row>;

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw std::invalid_argument("[table] " + fmt::format(text, std::forward<Args>(args)...));
}

std::string number(double value) { return fmt::format("{:.6g}", value); }

// A table with a vector per position: sinusoidal, rope or learned.
struct Vectors {
  std::string name;  // the variant, where the encoding has several
  std::string formula, source;
  RowMatrix matrix;
  std::vector<double> frequencies;       // of its waves, radians per token; empty for learned
  std::vector<double> pair_frequencies;  // see SinusoidalTable::pair_frequencies
};

Vectors sinusoidal_vectors(const Params& p, std::int64_t rows, std::int64_t d_model, SinusoidalVariant variant) {
  auto table = std::make_shared<const SinusoidalTable>(d_model, p.base, variant);
  Vectors v;
  v.name = to_word(variant);
  v.formula = sinusoidal_formula(variant);
  v.source = sinusoidal_source(variant);
  v.frequencies = table->frequencies();
  v.pair_frequencies = table->pair_frequencies();
  v.matrix = {rows, d_model, [table](std::int64_t first, std::span<double> out) { table->fill(first, out); },
              [table](std::int64_t first, std::int64_t count, DType dtype, std::byte* out) {
                table->fill_narrowed(first, count, dtype, out);
              }};
  return v;
}

Vectors rope_vectors(const Params& p, std::int64_t rows, RopeLayout layout) {
  const std::int64_t rotary_dim = p.rotary_dim.value_or(p.head_dim);
  if (rotary_dim > p.head_dim) refuse("rotary_dim {} is more than head_dim {}.", rotary_dim, p.head_dim);
  Vectors v;
  v.name = to_word(layout);
  v.formula = layout == RopeLayout::interleaved
                  ? "values 2i, 2i+1 = cos, sin of p * rope_theta^(-2i/rotary_dim): pair i starts as (1, 0) and turns"
                  : "values i, rotary_dim/2 + i = cos, sin of p * rope_theta^(-2i/rotary_dim): pair i starts as (1, 0) "
                    "and turns";
  v.source = "Su et al. 2021 (RoFormer), equations 15 and 34";
  v.frequencies = v.pair_frequencies = rope_inv_freq(rotary_dim, p.rope_theta);
  v.matrix = {rows, rotary_dim,
              [inv_freq = v.frequencies, layout, rotary_dim](std::int64_t first, std::span<double> out) {
                const auto width = static_cast<std::size_t>(rotary_dim);
                for (std::size_t row = 0; row < out.size() / width; ++row) {
                  const auto position = static_cast<double>(first + static_cast<std::int64_t>(row));
                  const std::span<double> values = out.subspan(row * width, width);
                  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
                    const auto pair = rope_pair_channels(layout, rotary_dim, static_cast<std::int64_t>(i));
                    values[static_cast<std::size_t>(pair.first)] = std::cos(position * inv_freq[i]);
                    values[static_cast<std::size_t>(pair.second)] = std::sin(position * inv_freq[i]);
                  }
                }
              }};
  return v;
}

Vectors learned_vectors(const Params& p, std::int64_t rows, std::int64_t d_model,
                        std::optional<Tensor<double, 2>> file) {
  std::shared_ptr<const LearnedTable> table;
  Vectors v;
  v.name = "learned";
  if (file) {
    require_learned_positions(rows, extent(*file, 0));
    if (d_model != extent(*file, 1)) {
      refuse("d_model is {} but {} has shape {} x {}.", d_model, *p.position_table, extent(*file, 0), extent(*file, 1));
    }
    table = std::make_shared<const LearnedTable>(std::move(*file));
    v.formula = "one trained vector per position, none beyond the last";
    v.source = *p.position_table;
  } else {
    Generator generator(p.seed);
    table = std::make_shared<const LearnedTable>(rows, d_model, generator);
    v.formula = "one vector per position, as before training: normal, standard deviation 0.02";
    v.source = fmt::format("numpy.random.default_rng({})", p.seed);
  }
  v.matrix = {rows, d_model, [table](std::int64_t first, std::span<double> out) {
                const auto width = static_cast<std::size_t>(table->d_model());
                for (std::size_t at = 0; at < out.size(); at += width) {
                  const auto row = table->row(first++);
                  std::copy(row.begin(), row.end(), out.begin() + static_cast<std::ptrdiff_t>(at));
                }
              }};
  return v;
}

// The best `top` of what was offered so far, in little memory.
class Ranking {
 public:
  explicit Ranking(std::int64_t top) : top_(static_cast<std::size_t>(top)) {}

  void offer(std::int64_t position, double similarity) {
    best_.emplace_back(similarity, position);
    if (best_.size() >= 2 * top_ + 1024) shorten();
  }
  void finish(Summary& summary) {
    shorten();
    std::vector<std::int64_t> positions, ranks;
    std::vector<double> similarities;
    for (std::size_t i = 0; i < best_.size(); ++i) {
      const auto& [similarity, position] = best_[i];
      const bool tie = i > 0 && similarity == best_[i - 1].first;
      ranks.push_back(tie ? ranks.back() : static_cast<std::int64_t>(i) + 1);
      positions.push_back(position);
      similarities.push_back(similarity);
    }
    summary.most_similar = std::move(positions);
    summary.similarities = std::move(similarities);
    summary.ties = std::move(ranks);
  }

 private:
  void shorten() {
    const std::size_t kept = std::min(top_, best_.size());
    std::partial_sort(
        best_.begin(), best_.begin() + static_cast<std::ptrdiff_t>(kept), best_.end(),
        [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
    best_.resize(kept);
  }

  std::size_t top_;
  std::vector<std::pair<double, std::int64_t>> best_;
};

void rank_similar(const Params& p, const Vectors& v, Summary& summary) {
  const std::int64_t rows = v.matrix.rows, target = *p.similar_to;
  if (target < 0 || target >= rows) refuse("similar_to {} is not one of the positions 0 .. {}.", target, rows - 1);
  if (p.top < 1) refuse("top must be at least 1 but got {}.", p.top);
  Ranking ranking(std::min(p.top, rows));
  if (!v.pair_frequencies.empty()) {
    // The product depends on the distance alone; so computed, equal distances tie exactly.
    for (std::int64_t distance = 0; distance <= std::max(target, rows - 1 - target); ++distance) {
      const double similarity = cosine_sum(v.pair_frequencies, static_cast<double>(distance));
      if (distance <= target) ranking.offer(target - distance, similarity);
      if (distance > 0 && distance < rows - target) ranking.offer(target + distance, similarity);
    }
  } else {
    const auto width = static_cast<std::size_t>(v.matrix.columns);
    std::vector<double> wanted(width), row(width);
    v.matrix.fill(target, wanted);
    for (std::int64_t position = 0; position < rows; ++position) {
      v.matrix.fill(position, row);
      double similarity = 0;
      for (std::size_t c = 0; c < width; ++c) similarity += wanted[c] * row[c];
      ranking.offer(position, similarity);
    }
  }
  ranking.finish(summary);
}

struct Difference {
  double max_abs = 0;
  std::int64_t position = 0, channel = 0;
};

Difference difference(const Tensor<double, 2>& file, const RowMatrix& matrix, DType dtype) {
  Difference worst;
  std::vector<double> ours(static_cast<std::size_t>(matrix.columns));
  for (std::int64_t position = 0; position < matrix.rows; ++position) {
    matrix.fill(position, ours);
    const std::span<const double> theirs = row(file, position);
    for (std::size_t c = 0; c < ours.size(); ++c) {
      const double diff = std::abs(theirs[c] - round_to(dtype, ours[c]));
      if (diff > worst.max_abs) worst = {diff, position, static_cast<std::int64_t>(c)};
    }
  }
  return worst;
}

// `all` are the variants of the encoding; the one that was asked for comes first.
void compare(const Params& p, const Tensor<double, 2>& file, const std::vector<Vectors>& all, Summary& summary) {
  const RowMatrix& asked = all.front().matrix;
  if (extent(file, 0) != asked.rows || extent(file, 1) != asked.columns) {
    refuse("compare_with {} has shape {} x {} but the table asked for is {} x {}; {}.", *p.compare_with,
           extent(file, 0), extent(file, 1), asked.rows, asked.columns,
           summary.resolved_encoding == Encoding::rope ? "see seq_len, head_dim and rotary_dim"
                                                       : "see seq_len and d_model");
  }
  std::vector<std::string> names;
  std::vector<double> diffs;
  for (const Vectors& v : all) {
    const Difference d = difference(file, v.matrix, p.dtype);
    if (names.empty()) {
      summary.max_abs_diff = d.max_abs;
      summary.worst_position = d.position;
      summary.worst_channel = d.channel;
    }
    names.push_back(v.name);
    diffs.push_back(d.max_abs);
  }
  const auto best = std::min_element(diffs.begin(), diffs.end()) - diffs.begin();
  summary.best_variant = names[static_cast<std::size_t>(best)];
  summary.compared_variants = std::move(names);
  summary.compared_max_abs_diff = std::move(diffs);
}

// "20 (16), 19 and 21 tied (15.3136), ..."
std::string ranking_text(const Summary& s) {
  std::vector<std::string> groups;
  for (std::size_t i = 0; i < s.ties->size();) {
    std::vector<std::int64_t> group;
    const std::size_t first = i;
    for (; i < s.ties->size() && (*s.ties)[i] == (*s.ties)[first]; ++i) group.push_back((*s.most_similar)[i]);
    groups.push_back(fmt::format("{}{} ({})", fmt::join(group, " and "), group.size() > 1 ? " tied" : "",
                                 number((*s.similarities)[first])));
  }
  return fmt::format("{}", fmt::join(groups, ", "));
}

std::string conclusion(const Params& p, const Vectors& v, const Summary& s) {
  std::string text = v.formula + ".\n";
  text += fmt::format("{} positions x {} numbers.", v.matrix.rows, v.matrix.columns);
  if (s.resolved_encoding == Encoding::learned) {
    text += fmt::format(" Position {} has none: nothing was learned for it.", v.matrix.rows);
  }
  if (s.longest_wavelength) {
    text +=
        fmt::format(" The waves repeat after {} to {} tokens: fast ones tell neighbours apart, slow ones far places.",
                    number(*s.shortest_wavelength), number(*s.longest_wavelength));
  }
  if (s.resolved_encoding == Encoding::sinusoidal && v.matrix.columns % 2 == 1) {
    text += v.name == to_word(SinusoidalVariant::tensor2tensor)
                ? " d_model is odd: the last number is 0."
                : " d_model is odd: there is one sine more than cosines.";
  }
  text += "\n";
  if (s.most_similar) {
    text += fmt::format("Most similar to position {}: {}.\n", *p.similar_to, ranking_text(s));
    if (!v.pair_frequencies.empty()) {
      text += "The similarity depends on the distance alone, so the same step left and right ties exactly.\n";
    }
  }
  if (s.max_abs_diff) {
    text += fmt::format("{} differs from this table by at most {:.3g} (position {}, channel {}).", *p.compare_with,
                        *s.max_abs_diff, *s.worst_position, *s.worst_channel);
    const auto best = std::min_element(s.compared_max_abs_diff->begin(), s.compared_max_abs_diff->end());
    text += *s.best_variant == v.name ? fmt::format(" No other variant fits better.\n")
                                      : fmt::format(" It fits {} better: at most {:.3g}.\n", *s.best_variant, *best);
  }
  return text;
}

// Sizes must be positive, and the table's bytes countable.
void check_size(std::int64_t rows, std::int64_t columns) {
  if (rows < 1) refuse("seq_len must be at least 1 but got {}.", rows);
  std::int64_t bytes = 0;
  if (columns > 0 &&
      (__builtin_mul_overflow(rows, columns, &bytes) || __builtin_mul_overflow(bytes, std::int64_t{8}, &bytes))) {
    refuse("a table of {} x {} values is beyond the 64-bit integers.", rows, columns);
  }
}

Table run_vectors(const Params& p, Encoding encoding, const RunContext& context) {
  std::optional<Tensor<double, 2>> trained, own;
  if (p.position_table) trained = read_npy_matrix(*p.position_table);
  if (p.compare_with) own = read_npy_matrix(*p.compare_with);
  const auto fallback = [&](std::size_t axis, std::int64_t otherwise) {
    return trained ? extent(*trained, axis) : own ? extent(*own, axis) : otherwise;
  };
  const std::int64_t rows = p.seq_len.value_or(fallback(0, 64));
  const std::int64_t d_model = p.d_model.value_or(fallback(1, 32));
  check_size(rows, encoding == Encoding::rope ? p.head_dim : d_model);

  std::vector<Vectors> all;
  if (encoding == Encoding::sinusoidal) {
    all.push_back(sinusoidal_vectors(p, rows, d_model, p.variant));
    for (const auto& entry : words(p.variant)) {
      if (own && entry.first != p.variant) all.push_back(sinusoidal_vectors(p, rows, d_model, entry.first));
    }
  } else if (encoding == Encoding::rope) {
    all.push_back(rope_vectors(p, rows, p.layout));
    for (const auto& entry : words(p.layout)) {
      if (own && entry.first != p.layout) all.push_back(rope_vectors(p, rows, entry.first));
    }
  } else {
    all.push_back(learned_vectors(p, rows, d_model, std::move(trained)));
  }

  const Vectors& v = all.front();
  Table report;
  Summary& s = report.summary;
  s.resolved_encoding = encoding;
  s.formula = v.formula;
  s.source = v.source;
  s.n_rows = v.matrix.rows;
  s.n_values = v.matrix.columns;
  for (double frequency : v.frequencies) {
    if (frequency == 0) continue;  // the padding channel of tensor2tensor
    const double wavelength = 2 * std::numbers::pi / frequency;
    s.shortest_wavelength = std::min(s.shortest_wavelength.value_or(wavelength), wavelength);
    s.longest_wavelength = std::max(s.longest_wavelength.value_or(wavelength), wavelength);
  }
  if (p.similar_to) rank_similar(p, v, s);
  if (own) compare(p, *own, all, s);

  report.row_count = v.matrix.rows;
  report.make_row = [matrix = v.matrix, dtype = p.dtype](std::int64_t i) {
    Row row;
    row.position = i;
    row.values.resize(static_cast<std::size_t>(matrix.columns));
    narrowed_row(matrix, dtype, i, row.values);
    return row;
  };
  report.columns = {"position", "values"};
  report.tensor = stream_tensor(v.matrix, p.dtype, context.threads);
  Picture picture = sampled_heatmap(v.matrix);
  picture.title = fmt::format("{} table", to_word(encoding));
  picture.x_label = "position (tokens)";
  picture.y_label = "channel";
  report.pictures.push_back(std::move(picture));
  report.conclusion = conclusion(p, v, s);
  return report;
}

Table run_alibi(const Params& p, const RunContext& context) {
  const std::int64_t rows = p.seq_len.value_or(64);
  const std::vector<double> slopes = alibi_slopes(p.n_heads, p.alibi_bias_max);
  check_size(rows, p.n_heads);
  const RowMatrix matrix{p.n_heads, rows, [slopes, rows](std::int64_t first, std::span<double> out) {
                           const auto width = static_cast<std::size_t>(rows);
                           for (std::size_t i = 0; i < out.size(); ++i) {
                             const double slope = slopes[static_cast<std::size_t>(first) + i / width];
                             out[i] = alibi_bias(slope, static_cast<std::int64_t>(i % width), 0);
                           }
                         }};
  Table report;
  Summary& s = report.summary;
  s.resolved_encoding = Encoding::alibi;
  s.formula =
      "bias = -slope * |i - j|; slope of head h = 2^(-alibi_bias_max * (h + 1) / n), n the largest power of two that "
      "is "
      "not above n_heads; further heads take every other slope of the series for 2n";
  s.source = "Press et al. 2021, the authors' code; BLOOM, MPT, Falcon";
  s.n_rows = p.n_heads;
  s.n_values = rows;
  report.row_count = p.n_heads;
  report.make_row = [matrix, slopes, dtype = p.dtype](std::int64_t h) {
    Row row;
    row.head = h;
    row.slope = round_to(dtype, slopes[static_cast<std::size_t>(h)]);
    row.values.resize(static_cast<std::size_t>(matrix.columns));
    matrix.fill(h, row.values);
    for (double& value : row.values) value = round_to(dtype, value);
    return row;
  };
  report.columns = {"head", "slope", "values"};
  report.tensor = stream_tensor(matrix, p.dtype, context.threads);
  Picture picture;
  picture.title = "bias by distance, the first heads";
  picture.x_label = "distance (tokens)";
  picture.y_label = "bias";
  for (std::int64_t h = 0; h < std::min<std::int64_t>(p.n_heads, 4); ++h) {
    Series line;
    line.name = fmt::format("head {}", h);
    for (std::int64_t x = 0; x < std::min<std::int64_t>(rows, 64); ++x) {
      const std::int64_t distance = rows <= 64 ? x : (rows - 1) / 63 * x;
      line.x.push_back(static_cast<double>(distance));
      line.y.push_back(alibi_bias(slopes[static_cast<std::size_t>(h)], distance, 0));
    }
    picture.series.push_back(std::move(line));
  }
  report.pictures.push_back(std::move(picture));
  const auto [least, most] = std::minmax_element(slopes.begin(), slopes.end());
  report.conclusion = fmt::format(
      "ALiBi has no vectors: each score loses slope * distance. {} heads, slopes from {} (near-sighted) to {} "
      "(far-sighted).\n",
      p.n_heads, number(*most), number(*least));
  return report;
}

Table run_t5(const Params& p) {
  std::int64_t count = 0;
  if (__builtin_sub_overflow(p.last_relative_position, p.first_relative_position, &count) ||
      __builtin_add_overflow(count, std::int64_t{1}, &count)) {
    refuse("relative positions {} .. {} are too many to count.", p.first_relative_position, p.last_relative_position);
  }
  if (count < 1) {
    refuse("last_relative_position {} is before first_relative_position {}.", p.last_relative_position,
           p.first_relative_position);
  }
  const auto bucket = [p](std::int64_t i) {
    return t5_bucket(p.first_relative_position + i, p.bidirectional, p.num_buckets, p.max_distance);
  };
  Table report;
  Summary& s = report.summary;
  s.resolved_encoding = Encoding::t5;
  s.formula = fmt::format(
      "of the n = {} buckets of a direction, distances below n/2 have one each; from there to max_distance they widen "
      "logarithmically; each head adds the bucket's learned number to the score",
      p.bidirectional ? p.num_buckets / 2 : p.num_buckets);
  s.source = "Raffel et al. 2019 (T5), its code";
  s.n_rows = count;
  s.n_values = 1;
  report.row_count = count;
  report.make_row = [bucket, first = p.first_relative_position](std::int64_t i) {
    Row row;
    row.relative_position = first + i;
    row.bucket = bucket(i);
    return row;
  };
  report.columns = {"relative_position", "bucket"};
  report.tensor = {DType::f64, {count}, [bucket](std::int64_t first, std::int64_t n, std::byte* out) {
                     std::vector<double> values;
                     for (std::int64_t i = first; i < first + n; ++i) values.push_back(static_cast<double>(bucket(i)));
                     narrow_to_bytes(DType::f64, values, out);
                   }};
  Picture picture;
  picture.title = "bucket by relative position";
  picture.x_label = "key minus query (tokens)";
  picture.y_label = "bucket";
  Series line;
  const std::int64_t shown = std::min<std::int64_t>(count, 512);
  for (std::int64_t x = 0; x < shown; ++x) {
    const std::int64_t i = count == shown ? x : (count - 1) / (shown - 1) * x;
    line.x.push_back(static_cast<double>(p.first_relative_position + i));
    line.y.push_back(static_cast<double>(bucket(i)));
  }
  picture.series.push_back(std::move(line));
  report.pictures.push_back(std::move(picture));
  report.conclusion = fmt::format(
      "Near distances have a bucket each, far ones share; from max_distance = {} on all fall into the last. {}\n",
      p.max_distance,
      p.bidirectional ? "Keys after the query have the upper half of the buckets."
                      : "Keys after the query, which a causal model masks, share bucket 0.");
  return report;
}

Table run(const Params& p, const RunContext& context) {
  const Encoding encoding = p.encoding.value_or(p.position_table ? Encoding::learned : Encoding::sinusoidal);
  if (p.position_table && encoding != Encoding::learned) {
    refuse("position_table is a learned table; it does not go with encoding {}.", to_word(encoding));
  }
  if (encoding == Encoding::alibi || encoding == Encoding::t5) {
    if (p.similar_to) refuse("similar_to compares vectors, and {} has none.", to_word(encoding));
    if (p.compare_with) refuse("compare_with compares vectors, and {} has none.", to_word(encoding));
    return encoding == Encoding::alibi ? run_alibi(p, context) : run_t5(p);
  }
  return run_vectors(p, encoding, context);
}

std::string excluded(const Record& record) {
  const auto p = from_record<Params>(record);
  const bool vectors = p.encoding != Encoding::alibi && p.encoding != Encoding::t5;
  if (!vectors && (p.similar_to || p.compare_with)) return "it has no vectors to compare";
  if (p.position_table && p.encoding && p.encoding != Encoding::learned) return "position_table is a learned table";
  return {};
}

Experiment describe_table() {
  Experiment e =
      describe<Params, Summary, Row>("table", "What does an encoding give each position: a vector, a slope, a bucket?",
                                     "poslab table --seq-len 64 --d-model 32 --similar-to 20 --top 5", run);
  e.excluded = excluded;
  return e;
}

const Registrar registrar("table", describe_table);

}  // namespace
}  // namespace poslab
