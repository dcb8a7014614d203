#include "experiments/probe_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace poslab {
namespace {

const Judgement& shown_judgement(const ProbeFinding& f) { return f.meant ? *f.meant : f.found; }

bool told(const ProbeFinding& f, std::string_view name) {
  return std::find(f.not_ruled_out.begin(), f.not_ruled_out.end(), name) == f.not_ruled_out.end();
}

// How the engine rounds: what was stored is as fine as its type at best.
std::string shown_profile(const Probed& p) {
  const std::string& found = p.finding.profile;
  const DType stored = p.dump.stored_as;
  const std::string base = found == "f64" && stored != DType::f64 ? "f32_table" : found;
  const bool coarse = base.starts_with("bf16") || base.starts_with("f16");
  if (coarse || !p.dump.has_pairing || stored == DType::f64 || stored == DType::f32) return base;
  return fmt::format("{}+{}_vectors", base, to_word(stored));
}

// Positions where what was meant fits everywhere although something is wrong, or, where nothing is, where nothing is
// rotated.
std::vector<double> find_silent(const Probed& p) {
  constexpr std::size_t most = 16;
  std::set<double> silent, speaking;
  const ProbeFinding& f = p.finding;
  const auto n = static_cast<std::ptrdiff_t>(f.found.n_pairs);
  const bool wrong = f.meant && !f.mistake.empty();
  for (std::size_t s = 0; s < p.dump.positions.size(); ++s) {
    bool hidden = p.dump.positions[s] == 0;
    if (wrong) {
      const auto row = f.meant->place_ratio.begin() + static_cast<std::ptrdiff_t>(s) * n;
      hidden = std::all_of(row, row + n, [](float r) { return r <= 1; });
    }
    (hidden ? silent : speaking).insert(p.dump.positions[s]);
  }
  std::vector<double> out;
  for (double position : silent) {
    if (!speaking.contains(position) && out.size() < most) out.push_back(position);
  }
  return out;
}

ProbeSummary summarize(const Probed& p) {
  ProbeSummary s;
  const ProbeFinding& f = p.finding;
  s.verdict = f.verdict;
  s.explained = f.explained;
  if (!f.mistake.empty()) s.mistake = f.mistake;
  if (!f.detail.empty()) s.detail = f.detail;
  s.wrong_pairs = f.wrong_pairs;
  s.wrong_heads = f.wrong_heads;
  s.wrong_rows = f.wrong_rows;
  s.first_wrong_position = f.first_wrong_position;
  s.used_positions = f.used_positions;
  s.residual = f.found.residual;
  if (f.meant) s.intended_residual = f.meant->residual;
  s.n_places = static_cast<std::int64_t>(p.dump.positions.size());
  s.n_alternatives = f.n_alternatives;
  s.not_ruled_out = f.not_ruled_out;
  s.dump_up_to = f.dump_up_to;
  s.silent_pairs = f.silent_pairs;
  if (p.dump.head_dim > 0) {
    s.noise = half_ulp(p.dump.stored_as, 1);
    s.silent_positions = find_silent(p);
  }
  if (!f.explained || !told(f, "not rotated")) return s;
  const RopeHypothesis& h = f.model.rope;
  if (p.dump.has_pairing && told(f, "pairing swapped")) s.layout = f.model.pairing.read;
  if (p.table_layout) s.layout = p.table_layout;
  s.rotary_dim = f.model.pairing.rotary_dim;
  s.rope_theta = h.scaling.rope_theta;
  s.rope_type = h.scaling.rope_type;
  if (h.scaling.rope_type.is_scaled()) {
    s.factor = h.scaling.factor;
    s.original_max_position_embeddings = h.scaling.original_max_position_embeddings;
  }
  s.attention_factor = f.model.cos_gain;
  s.profile = shown_profile(p);
  return s;
}

void unite(std::vector<std::int64_t>& all, const std::vector<std::int64_t>& more) {
  std::set<std::int64_t> both(all.begin(), all.end());
  both.insert(more.begin(), more.end());
  all.assign(both.begin(), both.end());
}

// What queries and keys say together.
void merge(ProbeSummary& s, const ProbeSummary& other) {
  s.n_places += other.n_places;
  s.residual = std::max(s.residual, other.residual);
  if (other.intended_residual) {
    s.intended_residual = std::max(s.intended_residual.value_or(0), *other.intended_residual);
  }
  std::erase_if(s.not_ruled_out, [&](const std::string& name) {
    return std::find(other.not_ruled_out.begin(), other.not_ruled_out.end(), name) == other.not_ruled_out.end();
  });
  unite(s.wrong_pairs, other.wrong_pairs);
  unite(s.wrong_heads, other.wrong_heads);
  unite(s.wrong_rows, other.wrong_rows);
  if (s.used_positions.empty()) s.used_positions = other.used_positions;
  if (other.first_wrong_position) {
    s.first_wrong_position =
        std::min(s.first_wrong_position.value_or(*other.first_wrong_position), *other.first_wrong_position);
  }
  if (other.mistake != s.mistake) {
    const std::string one = s.mistake.value_or("as meant"), two = other.mistake.value_or("as meant");
    const std::optional<std::string>& detail = s.mistake ? s.detail : other.detail;
    s.detail = s.mistake && other.mistake
                   ? fmt::format("query: {}; key: {}", s.detail.value_or(one), other.detail.value_or(two))
                   : detail;
    s.mistake = s.mistake && other.mistake ? fmt::format("{} in queries, {} in keys", one, two)
                : s.mistake                ? one + " in queries alone"
                                           : two + " in keys alone";
    s.explained = s.explained && other.explained;
    s.verdict = ProbeVerdict::mismatch;
  } else if (other.verdict == ProbeVerdict::match) {
    s.verdict = other.verdict;  // one of them settles it
  }
}

std::string parameters_text(const ProbeSummary& s) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (s.layout) add(fmt::format("{} pairs", to_word(*s.layout)));
  if (s.rotary_dim) add(fmt::format("rotary_dim {}", *s.rotary_dim));
  if (s.rope_theta) add(fmt::format("base {}", *s.rope_theta));
  if (s.rope_type && s.rope_type->is_scaled()) {
    add(fmt::format("{} scaling{}", to_word(*s.rope_type), s.factor ? fmt::format(" x{:.6g}", *s.factor) : ""));
  }
  if (s.attention_factor && *s.attention_factor != 1) add(fmt::format("attention factor {:.6g}", *s.attention_factor));
  if (s.profile) add(fmt::format("rounding as {}", *s.profile));
  return text;
}

template <class T>
std::string listed(std::string_view what, const std::vector<T>& values) {
  constexpr std::size_t shown = 12;
  const std::size_t n = std::min(shown, values.size());
  return fmt::format("{}{} {}{}", what, values.size() > 1 ? "s" : "",
                     fmt::join(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n), ", "),
                     n < values.size() ? ", ..." : "");
}

// "pairs 1 to 31", "heads 0, 2, 5".
std::string listed_ranges(std::string_view what, const std::vector<std::int64_t>& values) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < values.size();) {
    std::size_t end = i;
    while (end + 1 < values.size() && values[end + 1] == values[end] + 1) ++end;
    if (end > i + 1) {
      parts.push_back(fmt::format("{} to {}", values[i], values[end]));
      i = end + 1;
    } else {
      parts.push_back(std::to_string(values[i++]));
    }
  }
  constexpr std::size_t shown = 8;
  const bool more = parts.size() > shown;
  if (more) parts.resize(shown);
  return fmt::format("{}{} {}{}", what, values.size() > 1 ? "s" : "", fmt::join(parts, ", "), more ? ", ..." : "");
}

std::string where_text(const ProbeSummary& s) {
  std::vector<std::string> parts;
  if (!s.wrong_rows.empty()) parts.push_back(listed_ranges("batch row", s.wrong_rows));
  if (!s.wrong_heads.empty()) parts.push_back(listed_ranges("head", s.wrong_heads));
  if (!s.wrong_pairs.empty()) parts.push_back(listed_ranges("pair", s.wrong_pairs));
  if (s.first_wrong_position) parts.push_back(fmt::format("from position {} on", *s.first_wrong_position));
  std::string text = parts.empty() ? "" : fmt::format("Wrong: {}.\n", fmt::join(parts, "; "));
  if (!s.used_positions.empty()) {
    std::vector<std::string> used;
    for (double p : s.used_positions) used.push_back(fmt::format("{:.7g}", p));
    text += listed("The engine used position", used) + ".\n";
  }
  return text;
}

std::string outcome_text(const ProbeSummary& s, bool meant) {
  if (s.verdict == ProbeVerdict::match) {
    return fmt::format("{}: {}.\nEvery place lies within what that rounding allows; {:.1e} of the data is left.\n",
                       meant ? "The engine does what was meant" : "One implementation explains the data",
                       parameters_text(s) + (s.detail ? ", " + *s.detail : ""), s.residual);
  }
  if (s.verdict == ProbeVerdict::undecided && !s.explained) {
    return "Every position is 0, where no implementation rotates anything: these data say nothing. Dump positions 1, "
           "2, 3 and some far ones.";
  }
  if (s.verdict == ProbeVerdict::undecided) {
    std::string text =
        fmt::format("What was meant fits every place, but so would a gross mistake: these data hide it.\n");
    if (!s.silent_pairs.empty()) {
      text += fmt::format("Inputs of {} are 0 throughout and tell nothing: dump other vectors.\n",
                          listed_ranges("pair", s.silent_pairs));
    }
    return text;
  }
  std::string text = fmt::format("Mistake: {}{}.\n", *s.mistake, s.detail ? fmt::format(" ({})", *s.detail) : "");
  text += where_text(s);
  const std::string intended =
      s.intended_residual ? fmt::format("; what was meant leaves {:.1e}", *s.intended_residual) : "";
  if (s.explained) {
    text += fmt::format("The engine does this: {}.\nThat leaves {:.1e} of the data{}.\n", parameters_text(s),
                        s.residual, intended);
  } else {
    text += fmt::format(
        "The nearest account leaves {:.1e} of the data{}.\nCheck that input and output are the same vectors, that "
        "positions belong to them, and dump cos and sin or inv_freq too.\n",
        s.residual, intended);
  }
  if (s.mistake->find("tables in bf16") != std::string::npos) {
    text += "Models that run in bf16 round their tables so; if that is meant, say --profile bf16_table.\n";
  }
  return text;
}

std::string conclude(const ProbeSummary& s, bool meant, bool demo) {
  std::string text = demo ? "No files were given, so these data were made here; see --help for what to dump.\n" : "";
  text += outcome_text(s, meant);
  if (s.verdict == ProbeVerdict::mismatch && s.explained && !s.silent_positions.empty()) {
    text += fmt::format("It does not show at {}.\n", listed("position", s.silent_positions));
  }
  if (!s.not_ruled_out.empty()) {
    text += fmt::format("These data cannot rule out: {}.\n", fmt::join(s.not_ruled_out, "; "));
    text += s.dump_up_to ? fmt::format("Dump positions up to {} next: that would tell.", *s.dump_up_to)
                         : "No further position would tell them apart.";
  } else if (s.explained) {
    text += "Every other known mistake that would matter here is ruled out.";
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// Error over what rounding allows, by pair and place, the worst of each tile.
std::optional<Picture> draw(const Probed& p) {
  const Judgement& j = shown_judgement(p.finding);
  if (j.place_ratio.empty() || j.n_pairs == 0) return std::nullopt;
  const auto n = static_cast<std::size_t>(j.n_pairs), places = j.rows.places.size();
  std::vector<std::size_t> order(j.rows.places);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return p.dump.positions[a] < p.dump.positions[b]; });
  Picture picture;
  picture.kind = PictureKind::heatmap;
  picture.title = fmt::format("log10 of the error over what rounding allows{}; above 0 is wrong ({})",
                              p.finding.meant ? ", of what was meant" : "", to_word(p.tensor));
  picture.x_label = "place, by rising position";
  picture.y_label = "pair";
  picture.height = std::min<std::int64_t>(32, j.n_pairs);
  picture.width = static_cast<std::int64_t>(std::min<std::size_t>(64, places));
  const auto height = static_cast<std::size_t>(picture.height), width = static_cast<std::size_t>(picture.width);
  std::vector<double> worst(height * width, 1e-3);
  for (std::size_t s = 0; s < places; ++s) {
    for (std::size_t i = 0; i < n; ++i) {
      double& tile = worst[i * height / n * width + s * width / places];
      tile = std::max(tile, std::min<double>(j.place_ratio[order[s] * n + i], 1e9));
    }
  }
  for (double w : worst) picture.values.push_back(std::log10(w));
  return picture;
}

void add_pair_rows(const Probed& p, std::vector<ProbeRow>& rows) {
  const ProbeFinding& f = p.finding;
  const Judgement& j = shown_judgement(f);
  const auto n = static_cast<std::size_t>(j.n_pairs);
  for (std::size_t i = 0; i < n; ++i) {
    ProbeRow row;
    row.tensor = p.tensor;
    row.pair = static_cast<std::int64_t>(i);
    if (i < f.measured.value.size() && std::isfinite(f.measured.error[i])) row.measured_frequency = f.measured.value[i];
    if (i < p.meant_frequencies.size()) row.meant_frequency = p.meant_frequencies[i];
    if (i < f.pair_gains.size() && f.pair_gains[i] > 0) row.gain = f.pair_gains[i];
    row.worst_error = j.pair_error[i];
    row.worst_over_allowed = j.pair_ratio[i];
    float worst = -1;
    for (std::size_t s = 0; s < j.rows.places.size(); ++s) {
      const float ratio = j.place_ratio[s * n + i];
      row.wrong_places += ratio <= 1 ? 0 : 1;
      if (ratio > worst) {
        worst = ratio;
        row.worst_at = p.dump.positions[s];
      }
    }
    rows.push_back(row);
  }
}

void add_head_rows(const Probed& p, std::vector<ProbeRow>& rows) {
  const Judgement& j = shown_judgement(p.finding);
  const std::size_t heads = j.rows.vectors.size(), batches = static_cast<std::size_t>(p.dump.n_batches);
  const std::size_t length = j.rows.places.size() / batches;
  for (std::size_t b = 0; b < batches; ++b) {
    for (std::size_t h = 0; h < heads; ++h) {
      ProbeRow row;
      row.tensor = p.tensor;
      row.batch_row = static_cast<std::int64_t>(b);
      row.head = static_cast<std::int64_t>(h);
      float worst = -1;
      for (std::size_t t = 0; t < length; ++t) {
        const float ratio = j.row_ratio[(b * length + t) * heads + h];
        row.wrong_places += ratio <= 1 ? 0 : 1;
        row.worst_error = std::max<double>(row.worst_error, j.row_error[(b * length + t) * heads + h]);
        if (ratio > worst) {
          worst = ratio;
          row.worst_at = p.dump.positions[b * length + t];
        }
      }
      row.worst_over_allowed = worst;
      rows.push_back(row);
    }
  }
}

}  // namespace

ProbeReport report_probe(std::vector<Probed> probed, bool meant, bool demo, bool detail,
                         std::vector<std::string> warnings) {
  ProbeReport report;
  ProbeSummary& s = report.summary;
  for (std::size_t k = 0; k < probed.size(); ++k) {
    ProbeSummary one = summarize(probed[k]);
    if (k == 0) {
      s = std::move(one);
    } else {
      merge(s, one);
    }
    if (auto picture = draw(probed[k])) report.pictures.push_back(std::move(*picture));
    add_pair_rows(probed[k], report.rows);
    if (detail && probed[k].dump.head_dim > 0) add_head_rows(probed[k], report.rows);
  }
  s.warnings = std::move(warnings);
  report.conclusion = conclude(s, meant, demo);
  report.columns = {"tensor", "pair"};
  if (detail) report.columns.insert(report.columns.end(), {"batch_row", "head"});
  report.columns.insert(report.columns.end(), {"measured_frequency", "meant_frequency", "gain", "worst_error",
                                               "worst_over_allowed", "worst_at", "wrong_places"});
  return report;
}

}  // namespace poslab
