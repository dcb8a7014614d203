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
#include "experiments/table_fields.h"
#include "poslab/core/narrow.h"
#include "poslab/core/random.h"
#include "poslab/formats/npy.h"
#include "poslab/methods/list.h"
#include "poslab/report/matrix_views.h"
#include "poslab/rope/rope.h"

namespace poslab {
namespace {

using namespace table_fields;

using Table = TypedReport<Summary, Row>;

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw std::invalid_argument("[table] " + fmt::format(text, std::forward<Args>(args)...));
}

std::string number(double value) { return fmt::format("{:.6g}", value); }

// A table with a vector per position.
struct Vectors {
  VectorTable table;
  RowMatrix matrix;
};

PositionEncoding resolved_encoding(const Params& p) {
  return p.encoding.value_or(PositionEncoding(p.position_table ? learned_method() : sinusoidal_method()));
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
  if (!v.table.pair_frequencies.empty()) {
    // The product depends on the distance alone; so computed, equal distances tie exactly.
    for (std::int64_t distance = 0; distance <= std::max(target, rows - 1 - target); ++distance) {
      const double similarity = cosine_sum(v.table.pair_frequencies, static_cast<double>(distance));
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
           summary.resolved_encoding->acts_on(Place::rotation) ? "see seq_len, head_dim and rotary_dim"
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
    names.push_back(v.table.name);
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
  std::string text = v.table.formula + ".\n";
  text += fmt::format("{} positions x {} numbers.", v.matrix.rows, v.matrix.columns);
  const bool waves = s.longest_wavelength.has_value();
  if (!waves) text += v.table.note;
  if (s.longest_wavelength) {
    text +=
        fmt::format(" The waves repeat after {} to {} tokens: fast ones tell neighbours apart, slow ones far places.",
                    number(*s.shortest_wavelength), number(*s.longest_wavelength));
  }
  if (waves) text += v.table.note;
  text += "\n";
  if (s.most_similar) {
    text += fmt::format("Most similar to position {}: {}.\n", *p.similar_to, ranking_text(s));
    if (!v.table.pair_frequencies.empty()) {
      text += "The similarity depends on the distance alone, so the same step left and right ties exactly.\n";
    }
  }
  if (s.max_abs_diff) {
    text += fmt::format("{} differs from this table by at most {:.3g} (position {}, channel {}).", *p.compare_with,
                        *s.max_abs_diff, *s.worst_position, *s.worst_channel);
    const auto best = std::min_element(s.compared_max_abs_diff->begin(), s.compared_max_abs_diff->end());
    text += *s.best_variant == v.table.name
                ? fmt::format(" No other variant fits better.\n")
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

Table run_vectors(const Params& p, PositionEncoding encoding, const std::vector<VectorTable>& tables, std::int64_t rows,
                  const std::optional<Tensor<double, 2>>& own, const RunContext& context) {
  std::vector<Vectors> all;
  for (const VectorTable& table : tables) {
    all.push_back({table, {rows, table.columns, table.fill, table.fill_narrowed}});
  }
  const Vectors& v = all.front();
  Table report;
  Summary& s = report.summary;
  s.resolved_encoding = encoding;
  s.formula = v.table.formula;
  s.source = v.table.source;
  s.n_rows = v.matrix.rows;
  s.n_values = v.matrix.columns;
  for (double frequency : v.table.frequencies) {
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

Table run_by_distance(const Params& p, PositionEncoding encoding, const DistanceTable& table, std::int64_t rows,
                      const RunContext& context) {
  if (table.rows < 1) refuse("n_heads must be at least 1 but got {}.", p.n_heads);
  check_size(rows, table.rows);
  const RowMatrix matrix{table.rows, rows, [at = table.at, rows](std::int64_t first, std::span<double> out) {
                           for (std::size_t i = 0; i < out.size(); ++i) {
                             const auto place = static_cast<std::int64_t>(i);
                             out[i] = at(first + place / rows, place % rows);
                           }
                         }};
  Table report;
  Summary& s = report.summary;
  s.resolved_encoding = encoding;
  s.formula = table.formula;
  s.source = table.source;
  s.n_rows = table.rows;
  s.n_values = rows;
  report.row_count = table.rows;
  report.make_row = [matrix, table, dtype = p.dtype](std::int64_t h) {
    Row row;
    (table.by_pair ? row.pair : row.head) = h;
    const std::optional<double> slope = table.slope ? table.slope(h) : std::nullopt;
    if (slope) row.slope = round_to(dtype, *slope);
    row.values.resize(static_cast<std::size_t>(matrix.columns));
    matrix.fill(h, row.values);
    for (double& value : row.values) value = round_to(dtype, value);
    return row;
  };
  report.columns = {table.by_pair ? "pair" : "head"};
  if (table.slope && table.slope(0)) report.columns.push_back("slope");
  report.columns.push_back("values");
  report.tensor = stream_tensor(matrix, p.dtype, context.threads);
  Picture picture;
  picture.title = table.title;
  picture.x_label = "distance (tokens)";
  picture.y_label = table.by_pair ? "decay" : "bias";
  for (std::int64_t h = 0; h < std::min<std::int64_t>(table.rows, 4); ++h) {
    Series line;
    line.name = fmt::format("{} {}", table.by_pair ? "pair" : "head", h);
    for (std::int64_t x = 0; x < std::min<std::int64_t>(rows, 64); ++x) {
      const std::int64_t distance = rows <= 64 ? x : (rows - 1) / 63 * x;
      line.x.push_back(static_cast<double>(distance));
      line.y.push_back(table.at(h, distance));
    }
    picture.series.push_back(std::move(line));
  }
  report.pictures.push_back(std::move(picture));
  report.conclusion = table.conclusion;
  return report;
}

Table run_buckets(const Params& p, PositionEncoding encoding, const BucketTable& table) {
  std::int64_t count = 0;
  if (__builtin_sub_overflow(p.last_relative_position, p.first_relative_position, &count) ||
      __builtin_add_overflow(count, std::int64_t{1}, &count)) {
    refuse("relative positions {} .. {} are too many to count.", p.first_relative_position, p.last_relative_position);
  }
  if (count < 1) {
    refuse("last_relative_position {} is before first_relative_position {}.", p.last_relative_position,
           p.first_relative_position);
  }
  const auto bucket = [of = table.bucket, first = p.first_relative_position](std::int64_t i) { return of(first + i); };
  bucket(0);  // or throws
  Table report;
  Summary& s = report.summary;
  s.resolved_encoding = encoding;
  s.formula = table.formula;
  s.source = table.source;
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
  report.conclusion = table.conclusion;
  return report;
}

Table run(const Params& p, const RunContext& context) {
  const PositionEncoding encoding = resolved_encoding(p);
  if (p.position_table && !encoding->learns_input()) {
    refuse("position_table is a learned table; it does not go with encoding {}.", to_word(encoding));
  }
  require_own_parameters("table", *encoding, p.method);
  std::optional<Tensor<double, 2>> trained, own;
  if (p.position_table) trained = read_npy_matrix(*p.position_table);
  if (p.compare_with) own = read_npy_matrix(*p.compare_with);
  const auto fallback = [&](std::size_t axis, std::int64_t otherwise) {
    return trained ? extent(*trained, axis) : own ? extent(*own, axis) : otherwise;
  };
  const std::int64_t rows = p.seq_len.value_or(fallback(0, 64));
  const std::int64_t d_model = p.d_model.value_or(fallback(1, 32));
  const bool rotates = encoding->acts_on(Place::rotation);
  check_size(rows, rotates ? p.head_dim : encoding->acts_on(Place::input) ? d_model : 0);
  if (trained && d_model != extent(*trained, 1)) {
    refuse("d_model is {} but {} has shape {} x {}.", d_model, *p.position_table, extent(*trained, 0),
           extent(*trained, 1));
  }
  const MethodModel model{p.method, d_model, p.n_heads, p.head_dim, trained ? extent(*trained, 0) : rows, false};
  encoding->check(model);
  TableRequest request{model};
  request.rows = rows;
  request.seed = p.seed;
  request.all_variants = own.has_value();
  request.layout = p.layout;
  if (trained) {
    request.trained.assign(trained->begin(), trained->end());
    request.trained_file = *p.position_table;
  }
  if (rotates) {
    const std::int64_t rotary_dim = p.rotary_dim.value_or(p.head_dim);
    if (rotary_dim > p.head_dim) refuse("rotary_dim {} is more than head_dim {}.", rotary_dim, p.head_dim);
    request.inv_freq = rope_inv_freq(rotary_dim, p.rope_theta);
  }
  const MethodTable table = encoding->table(request);
  if (!table.vectors.empty()) return run_vectors(p, encoding, table.vectors, rows, own, context);
  if (p.similar_to) refuse("similar_to compares vectors, and {} has none.", to_word(encoding));
  if (p.compare_with) refuse("compare_with compares vectors, and {} has none.", to_word(encoding));
  if (table.by_distance) return run_by_distance(p, encoding, *table.by_distance, rows, context);
  if (table.buckets) return run_buckets(p, encoding, *table.buckets);
  refuse("{} has no table: it {}; `{}` shows it.", to_word(encoding), encoding->sentence(), encoding->shown_by());
}

std::string excluded(const Record& record) {
  const auto p = from_record<Params>(record);
  const PositionEncoding encoding = resolved_encoding(p);
  if (encoding->places().empty()) return "it has no table";
  const bool vectors = encoding->acts_on(Place::input) || encoding->is_plain_rotation();
  if (!vectors && (p.similar_to || p.compare_with)) return "it has no vectors to compare";
  if (p.position_table && !encoding->learns_input()) return "position_table is a learned table";
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
