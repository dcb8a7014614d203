#include "poslab/probe/probe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "experiments/experiment.h"
#include "experiments/rope_params.h"
#include "poslab/core/element_type.h"
#include "poslab/core/random.h"
#include "poslab/model_configs/hf_config.h"
#include "poslab/probe/dump.h"
#include "poslab/probe/evidence.h"
#include "poslab/probe/examination.h"
#include "poslab/probe/hypothesis.h"
#include "poslab/probe/inference.h"

namespace poslab {
namespace {

constexpr RopeHelp help{.head_dim = "channels of one attention head; absent: the model's, else the data's"};

constexpr std::string_view no_mistake = "none";

struct Params {
  std::optional<std::string> query_input, query_output, key_input, key_output;
  std::optional<std::string> unit_vectors, cos, sin, inv_freq, positions;
  std::optional<RopeLayout> layout;
  RopeParams rope;
  std::optional<std::int64_t> seq_len;
  std::optional<std::string> profile;
  std::optional<std::string> demo;
  DType dtype = DType::f32;
  std::int64_t seed = 1;

  static void fields(auto& self, auto&& field) {
    field("query_input", self.query_input, "queries before the turn, .npy [..., seq_len, head_dim]; absent: none");
    field("query_output", self.query_output, "the same queries after it; absent: none");
    field("key_input", self.key_input, "keys before the turn; absent: none");
    field("key_output", self.key_output, "the same keys after it; absent: none");
    field("unit_vectors", self.unit_vectors,
          "turned unit vectors, .npy [seq_len, head_dim, head_dim], in place of queries and keys; absent: none");
    field("cos", self.cos, "the engine's table of cosines, .npy [seq_len, n], in place of vectors; absent: none");
    field("sin", self.sin, "the engine's table of sines; absent: none");
    field("inv_freq", self.inv_freq,
          "the engine's frequencies, .npy [rotary_dim/2], in place of vectors; absent: none");
    field("positions", self.positions, "positions, .npy [seq_len] or [batch, seq_len]; absent: 0, 1, 2, ...");
    field("layout", self.layout, "which pairing is meant; absent: the model's, else either");
    RopeParams::fields(self.rope, field, help);
    field("seq_len", self.seq_len, "length that dynamic and longrope look at; absent: the last position + 1", "tokens");
    field("profile", self.profile,
          "the rounding that is meant (see precision --profiles); absent: any in f32 or finer is right");
    field("demo", self.demo, "without files: make data with this mistake, or with none; absent: pairing swapped");
    field("dtype", self.dtype, "what the demo's vectors are stored in");
    field("seed", self.seed, "seed of the demo's vectors");
  }
};

struct Summary {
  ProbeVerdict verdict = ProbeVerdict::undecided;
  std::optional<std::string> mistake;
  std::optional<std::string> detail;
  bool explained = false;
  double residual = 0;
  std::optional<double> intended_residual;
  std::optional<RopeLayout> layout;
  std::optional<std::int64_t> rotary_dim;
  std::optional<double> rope_theta;
  std::optional<RopeType> rope_type;
  std::optional<double> factor, original_max_position_embeddings, attention_factor, position_offset;
  std::optional<std::string> profile;
  std::optional<double> noise;
  std::int64_t n_places = 0, n_alternatives = 0;
  std::optional<double> first_wrong_position, dump_up_to;
  std::vector<double> silent_positions;
  std::vector<std::string> not_ruled_out;
  std::vector<std::string> warnings;

  static void fields(auto& self, auto&& field) {
    field("verdict", self.verdict,
          "match, mismatch, or undecided: what was meant fits, but these data would hide a gross mistake");
    field("mistake", self.mistake, "what parts the engine from what was meant (null: nothing)");
    field("detail", self.detail, "the values behind the mistake");
    field("explained", self.explained, "whether some hypothesis explains the data");
    field("residual", self.residual, "what the best hypothesis leaves, root mean square relative to the data's");
    field("intended_residual", self.intended_residual, "the same of what was meant (null: nothing was)");
    field("layout", self.layout, "pairing that the engine uses (null from here on: the data do not say)");
    field("rotary_dim", self.rotary_dim, "channels that it turns", "channels");
    field("rope_theta", self.rope_theta, "its base");
    field("rope_type", self.rope_type, "its scaling");
    field("factor", self.factor, "the scaling's factor");
    field("original_max_position_embeddings", self.original_max_position_embeddings, "the scaling's original length",
          "tokens");
    field("attention_factor", self.attention_factor, "what it multiplies cos and sin by");
    field("position_offset", self.position_offset, "by how much its positions are ahead of those given", "tokens");
    field("profile", self.profile, "how it rounds, as far as the data tell");
    field("noise", self.noise, "relative error of one value: its storage's rounding, or what no turn explains");
    field("n_places", self.n_places, "positions in the data");
    field("n_alternatives", self.n_alternatives, "named mistakes that would change something here");
    field("first_wrong_position", self.first_wrong_position,
          "where the engine leaves the hypothesis that explains the rest (null: nowhere)", "tokens");
    field("dump_up_to", self.dump_up_to, "position that would tell what not_ruled_out lists (null: none would)",
          "tokens");
    field("silent_positions", self.silent_positions,
          "the first positions in the data that tell nothing: what was meant fits there whatever the mistake, or "
          "nothing turns",
          "tokens");
    field("not_ruled_out", self.not_ruled_out, "mistakes that would look the same in these data");
    field("warnings", self.warnings, "what to know about the parameters");
  }
};

struct Row {
  ProbedTensor tensor = ProbedTensor::query;
  double position = 0;
  double fit_residual = 0;
  std::optional<double> meant_residual;
  std::int64_t ruled_out = 0;

  static void fields(auto& self, auto&& field) {
    field("tensor", self.tensor, "where the vectors came from");
    field("position", self.position, "place of the vectors", "tokens");
    field("fit_residual", self.fit_residual, "what the best hypothesis leaves here, relative");
    field("meant_residual", self.meant_residual, "what the meant one leaves here");
    field("ruled_out", self.ruled_out, "named mistakes that this place alone would show");
  }
};

bool anything_meant(const Params& p) { return p.layout || p.profile || to_record(p.rope) != to_record(RopeParams{}); }

struct Meant {
  ProbeQuestion question;
  std::vector<std::string> warnings;
};

// `width`: channels of the data's heads.
Meant resolve_meant(const Params& p, std::int64_t width, double last_position) {
  RopeFallbacks fallbacks;
  fallbacks.head_dim = width;
  const ResolvedRope rope = resolve_rope(p.rope, fallbacks, p.seq_len);
  RopeHypothesis h;
  h.seq_len = rope.seq_len;
  const RopeType type = rope.scaling.rope_type;
  if (!p.seq_len && (type == RopeType::dynamic || type == RopeType::longrope)) {
    h.seq_len = static_cast<std::int64_t>(last_position) + 1;
  }
  set_scaling(h, rope.scaling);
  h.profile = p.profile.value_or("f64");
  Meant meant;
  meant.warnings = rope.warnings;
  meant.question.head_dim = width;
  meant.question.profile = p.profile.value_or("");
  const std::optional<RopeLayout> layout = p.layout ? p.layout : rope.layout;
  for (RopeLayout l : {RopeLayout::half, RopeLayout::interleaved}) {
    if (layout && *layout != l) continue;
    h.layout = l;
    meant.question.meant.push_back(h);
  }
  if (p.rope.model) {
    const ModelConfig config = load_model_config(*p.rope.model);
    for (const LayerPositions& layer : config.layers) {
      if (layer.encoding == ModelEncoding::rope && !layer.layer_type.empty()) {
        meant.question.others.emplace_back(layer.layer_type, layer.rope);
      }
    }
  }
  return meant;
}

void fill_summary(Summary& s, const Examined& e) {
  const ProbeFinding& f = e.finding;
  s.verdict = f.verdict;
  s.explained = f.explained;
  if (!f.mistake.empty()) s.mistake = f.mistake;
  s.residual = root_mean_square(e.fit);
  if (!e.meant.empty()) s.intended_residual = root_mean_square(e.meant);
  s.noise = e.noise;
  s.n_places = static_cast<std::int64_t>(e.positions.size());
  s.n_alternatives = static_cast<std::int64_t>(f.alternatives.size());
  s.not_ruled_out = f.not_ruled_out;
  if (!f.explained || !ruled_out_by_name(f, "not rotated")) return;
  const RopeHypothesis& h = f.best->hypothesis;
  if (!h.detail.empty()) s.detail = h.detail;
  if (ruled_out_by_name(f, "pairing swapped")) s.layout = h.layout;
  if (!e.has_pairing) s.layout.reset();
  s.rotary_dim = h.rotary_dim();
  s.rope_theta = h.scaling.rope_theta;
  s.rope_type = h.scaling.rope_type;
  if (h.scaling.rope_type != RopeType::default_) {
    s.factor = h.scaling.factor;
    s.original_max_position_embeddings = h.scaling.original_max_position_embeddings;
  }
  s.attention_factor = h.frequencies.attention_factor;
  s.position_offset = h.position_offset;
  s.profile = shown_profile(e, h);
}

std::string parameters_text(const Summary& s) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (s.layout) add(fmt::format("{} pairs", to_word(*s.layout)));
  if (s.rotary_dim) add(fmt::format("rotary_dim {}", *s.rotary_dim));
  if (s.rope_theta) add(fmt::format("base {}", *s.rope_theta));
  if (s.rope_type && *s.rope_type != RopeType::default_) {
    add(fmt::format("{} scaling{}", to_word(*s.rope_type), s.factor ? fmt::format(" x{:.6g}", *s.factor) : ""));
  }
  if (s.attention_factor && *s.attention_factor != 1) add(fmt::format("attention factor {:.6g}", *s.attention_factor));
  if (s.position_offset && *s.position_offset != 0) add(fmt::format("positions {:+}", *s.position_offset));
  if (s.profile) add(fmt::format("rounding as {}", *s.profile));
  return text;
}

std::string conclude(const Summary& s, bool meant, bool demo) {
  std::string text = demo ? "No files were given, so these data were made here; see --help for what to dump.\n" : "";
  if (s.verdict == ProbeVerdict::match) {
    text += meant ? "The engine does what was meant" : "One implementation explains the data";
    text += fmt::format(": {}.\nWhat is left is {:.1e} of the data, as their rounding makes.\n", parameters_text(s),
                        s.residual);
  } else if (s.verdict == ProbeVerdict::undecided && !s.explained) {
    text +=
        "Every position is 0, where no implementation turns anything: these data say nothing. Dump positions 1, 2, "
        "3 and some far ones.";
  } else if (s.verdict == ProbeVerdict::undecided) {
    text += fmt::format("What was meant fits to {:.1e}, but so would a gross mistake: these positions hide it.\n",
                        s.residual);
  } else if (!s.explained) {
    text += fmt::format("Nothing that poslab knows explains the data: the nearest hypothesis leaves {:.1e} of them.\n",
                        s.residual);
    text +=
        "Check that input and output are the same vectors, that positions belong to them, and dump cos and sin or "
        "inv_freq too.\n";
  } else {
    text += fmt::format("Mistake: {}{}.\n", *s.mistake, s.detail ? fmt::format(" ({})", *s.detail) : "");
    text +=
        fmt::format("The engine does this: {}.\nThat leaves {:.1e} of the data{}.\n", parameters_text(s), s.residual,
                    s.intended_residual ? fmt::format("; what was meant leaves {:.1e}", *s.intended_residual) : "");
    if (s.mistake->find("tables in bf16") != std::string::npos) {
      text += "Models that run in bf16 round their tables so; if that is meant, say --profile bf16_table.\n";
    }
  }
  if (s.first_wrong_position && s.explained) {
    text += fmt::format("From position {} on the engine does something else.\n", *s.first_wrong_position);
  }
  if (s.verdict == ProbeVerdict::mismatch && s.explained && !s.silent_positions.empty()) {
    text += fmt::format("It does not show at position{} {}.\n", s.silent_positions.size() > 1 ? "s" : "",
                        fmt::join(s.silent_positions, ", "));
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

// Data with a named mistake, for a first look without an engine.
struct Demo {
  Meant meant;
  LoadedVectors loaded;
};

std::unique_ptr<Demo> make_demo(const Params& p) {
  constexpr std::int64_t places = 128, vectors = 4;
  Params q = p;
  if (!q.layout && !q.rope.model) q.layout = RopeLayout::half;
  auto demo = std::make_unique<Demo>();
  demo->meant = resolve_meant(q, p.rope.head_dim.value_or(128), places - 1);
  const RopeHypothesis& meant = demo->meant.question.meant.front();
  const std::int64_t head_dim = std::max(meant.scaling.head_dim, meant.rotary_dim());
  demo->meant.question.head_dim = head_dim;

  RopeHypothesis made = meant;
  const std::string wanted = p.demo.value_or("pairing swapped");
  if (wanted != no_mistake) {
    std::vector<std::string> known = {std::string(no_mistake)};
    for (const NamedMistake& m : named_mistakes(meant, head_dim, demo->meant.question.others)) {
      if (m.hypothesis.mistake() == wanted) {
        made = m.hypothesis;
        known.clear();
        break;
      }
      if (std::find(known.begin(), known.end(), m.hypothesis.mistake()) == known.end()) {
        known.push_back(m.hypothesis.mistake());
      }
    }
    if (!known.empty()) {
      throw std::invalid_argument(
          fmt::format("[probe] demo '{}' would change nothing here; known are {}.", wanted, fmt::join(known, ", ")));
    }
  }
  LoadedVectors& loaded = demo->loaded;
  loaded.input.shape = loaded.output.shape = {vectors, places, head_dim};
  Generator generator(p.seed);
  loaded.input.values = generator.normals(vectors * places * head_dim);
  for (double& v : loaded.input.values) v = round_to(p.dtype, v);
  loaded.output.values = loaded.input.values;
  const RopeTurns turns(made);
  VectorDump& dump = loaded.dump;
  dump.head_dim = head_dim;
  dump.n_vectors = vectors;
  for (std::int64_t s = 0; s < places; ++s) {
    dump.positions.push_back(static_cast<double>(s));
    for (std::int64_t v = 0; v < vectors; ++v) {
      const std::int64_t row = (v * places + s) * head_dim;
      dump.input_rows.push_back(row);
      dump.output_rows.push_back(row);
      for (std::int64_t i = 0; i < turns.n_pairs(); ++i) {
        const auto [a, b] = rope_pair_channels(made.layout, made.rotary_dim(), i);
        const std::complex<double> turned =
            turns(static_cast<double>(s), i) *
            std::complex<double>(loaded.input.values[row + a], loaded.input.values[row + b]);
        loaded.output.values[row + a] = round_to(p.dtype, turned.real());
        loaded.output.values[row + b] = round_to(p.dtype, turned.imag());
      }
    }
  }
  dump.input = loaded.input.values;
  dump.output = loaded.output.values;
  return demo;
}

// Which of the kinds of data was given; throws where it is none or several.
enum class Source { vectors, units, table, frequencies, demo };

Source find_source(const Params& p) {
  const auto both = [](const auto& a, const auto& b, std::string_view what) {
    if (a.has_value() != b.has_value()) {
      throw std::invalid_argument(fmt::format("[probe] {} belong together; give both.", what));
    }
    return a.has_value();
  };
  const bool query = both(p.query_input, p.query_output, "query_input and query_output");
  const bool key = both(p.key_input, p.key_output, "key_input and key_output");
  const bool table = both(p.cos, p.sin, "cos and sin");
  const int kinds = (query || key ? 1 : 0) + (p.unit_vectors ? 1 : 0) + (table ? 1 : 0) + (p.inv_freq ? 1 : 0);
  if (kinds > 1) {
    throw std::invalid_argument(
        "[probe] vectors, unit_vectors, a table and inv_freq exclude each other; probe one kind at a time.");
  }
  if (kinds == 1 && p.demo) throw std::invalid_argument("[probe] demo makes data of its own; give it without files.");
  if (kinds == 0 && p.positions) throw std::invalid_argument("[probe] positions need the vectors they belong to.");
  return query || key     ? Source::vectors
         : p.unit_vectors ? Source::units
         : table          ? Source::table
         : p.inv_freq     ? Source::frequencies
                          : Source::demo;
}

// What queries and keys say together.
void merge(Summary& s, const Summary& other) {
  s.n_places += other.n_places;
  s.residual = std::max(s.residual, other.residual);
  if (other.intended_residual)
    s.intended_residual = std::max(s.intended_residual.value_or(0), *other.intended_residual);
  std::erase_if(s.not_ruled_out, [&](const std::string& name) {
    return std::find(other.not_ruled_out.begin(), other.not_ruled_out.end(), name) == other.not_ruled_out.end();
  });
  if (other.mistake != s.mistake) {
    s.detail = fmt::format("query: {}; key: {}", s.mistake.value_or("as meant"), other.mistake.value_or("as meant"));
    s.mistake = s.mistake && other.mistake ? fmt::format("{} in queries, {} in keys", *s.mistake, *other.mistake)
                : s.mistake                ? *s.mistake + " in queries alone"
                                           : *other.mistake + " in keys alone";
    s.explained = s.explained && other.explained;
    s.verdict = ProbeVerdict::mismatch;
  } else if (other.verdict == ProbeVerdict::match) {
    s.verdict = other.verdict;  // one of them settles it
  }
}

void add_breaks(Summary& s, const Examined& e) {
  const std::vector<double>& left = e.finding.explained ? e.fit : e.meant;
  const Breaks breaks = find_breaks(e, left);
  if (breaks.positions.empty()) return;
  constexpr std::size_t shown = 8;
  s.first_wrong_position = breaks.positions.front();
  s.verdict = ProbeVerdict::mismatch;
  std::string name = "some positions turned otherwise";
  if (breaks.to_the_end) {
    name = fmt::format("positions from {} on turned otherwise", breaks.positions.front());
  } else {
    const std::size_t n = std::min(shown, breaks.positions.size());
    s.detail = fmt::format("{}{}", fmt::join(breaks.positions.begin(), breaks.positions.begin() + n, ", "),
                           n < breaks.positions.size() ? ", ..." : "");
  }
  s.mistake = s.mistake && e.finding.explained ? *s.mistake + " and " + name : name;
}

TypedReport<Summary, Row> report_turns(std::vector<Examined> examined, const Meant& meant, bool demo) {
  TypedReport<Summary, Row> report;
  Summary& s = report.summary;
  for (std::size_t k = 0; k < examined.size(); ++k) {
    Summary one;
    fill_summary(one, examined[k]);
    add_breaks(one, examined[k]);
    one.dump_up_to = telling_position(examined[k]);
    one.silent_positions = find_silent(examined[k]);
    if (k == 0) {
      s = std::move(one);
    } else {
      merge(s, one);
    }
  }
  s.warnings = meant.warnings;
  report.conclusion = conclude(s, !meant.question.meant.empty(), demo);

  Picture picture;
  picture.title = "what the hypothesis leaves of the data";
  picture.x_label = "position (tokens)";
  picture.y_label = "relative residual";
  picture.log_y = true;
  for (const Examined& e : examined) {
    const auto series = [&](std::string_view name, const std::vector<double>& left) {
      if (left.empty()) return;
      std::map<double, double> by_position;
      for (std::size_t i = 0; i < left.size(); ++i) {
        if (left[i] > 0) by_position[e.positions[i]] = std::max(by_position[e.positions[i]], left[i]);
      }
      Series line;
      line.name = fmt::format("{}{}", name, examined.size() > 1 ? fmt::format(" ({})", to_word(e.tensor)) : "");
      for (const auto& [position, value] : by_position) {
        line.x.push_back(position);
        line.y.push_back(value);
      }
      if (!line.x.empty()) picture.series.push_back(std::move(line));
    };
    series("best hypothesis", e.fit);
    if (s.verdict == ProbeVerdict::mismatch) series("as meant", e.meant);
  }
  if (!picture.series.empty()) report.pictures.push_back(std::move(picture));

  report.columns = {"tensor", "position", "fit_residual"};
  if (!examined.front().meant.empty()) report.columns.push_back("meant_residual");
  report.columns.push_back("ruled_out");
  report.row_count = s.n_places;
  report.make_row = [examined = std::move(examined)](std::int64_t index) {
    auto i = static_cast<std::size_t>(index);
    const Examined* e = &examined.front();
    if (i >= e->positions.size()) {
      i -= e->positions.size();
      e = &examined.back();
    }
    Row row;
    row.tensor = e->tensor;
    row.position = e->positions[i];
    if (!e->fit.empty()) row.fit_residual = e->fit[i];
    if (!e->meant.empty()) row.meant_residual = e->meant[i];
    row.ruled_out = n_ruled_out_at(*e, row.position);
    return row;
  };
  return report;
}

TypedReport<Summary, Row> report_frequencies(const Params& p) {
  const std::vector<double> inv_freq = load_inv_freq(*p.inv_freq);
  Meant meant;
  const auto width = 2 * static_cast<std::int64_t>(inv_freq.size());
  if (anything_meant(p)) {
    if (!p.layout) {
      Params q = p;
      q.layout = RopeLayout::half;  // frequencies know no pairing
      meant = resolve_meant(q, width, static_cast<double>(p.seq_len.value_or(1) - 1));
    } else {
      meant = resolve_meant(p, width, static_cast<double>(p.seq_len.value_or(1) - 1));
    }
  }
  meant.question.head_dim =
      std::max(width, meant.question.meant.empty() ? 0 : meant.question.meant[0].scaling.head_dim);
  const FrequencyEvidence evidence(inv_freq);
  Examined e;
  e.finding = probe(evidence, meant.question, [&] { return infer_hypotheses(evidence); });
  e.stored_as = evidence.stored_as();
  const auto left = [&](const RopeHypothesis& h) {
    double off = 0, size = 0;
    for (std::size_t i = 0; i < inv_freq.size() && i < h.frequencies.inv_freq.size(); ++i) {
      if (h.frequencies.inv_freq[i] == 0) continue;
      const double relative = inv_freq[i] / h.frequencies.inv_freq[i] - 1;
      off += relative * relative;
      size += 1;
    }
    return size > 0 ? std::sqrt(off / size) : 0;
  };
  if (e.finding.best) e.fit = {left(e.finding.best->hypothesis)};
  if (!meant.question.meant.empty()) e.meant = {left(meant.question.meant.front())};
  TypedReport<Summary, Row> report;
  Summary& s = report.summary;
  fill_summary(s, e);
  // Frequencies alone say nothing about these.
  s.layout.reset();
  s.position_offset.reset();
  s.noise.reset();
  s.n_places = 0;
  s.warnings = meant.warnings;
  report.conclusion = conclude(s, !meant.question.meant.empty(), false);
  return report;
}

TypedReport<Summary, Row> run(const Params& p, const RunContext& context) {
  const Source source = find_source(p);
  if (p.profile) numeric_profile(*p.profile);  // for its checks
  if (source == Source::frequencies) return report_frequencies(p);
  if (source == Source::demo) {
    const auto demo = make_demo(p);
    std::vector<Examined> examined;
    examined.push_back(examine_vectors(ProbedTensor::query, demo->loaded, demo->meant.question, context.threads));
    return report_turns(std::move(examined), demo->meant, true);
  }

  std::optional<NpyArray<double>> positions;
  if (p.positions) positions = read_positions(*p.positions);
  const auto resolve = [&](std::int64_t width, const std::vector<double>& places) {
    return anything_meant(p) ? resolve_meant(p, width, *std::max_element(places.begin(), places.end())) : Meant{};
  };
  std::vector<Examined> examined;
  Meant meant;
  if (source == Source::table) {
    const LoadedTable table = load_table(*p.cos, *p.sin, positions);
    const auto n_pairs = static_cast<std::int64_t>(table.dump.turns.size() / table.dump.positions.size());
    meant = resolve(2 * n_pairs, table.dump.positions);
    meant.question.head_dim =
        std::max(2 * n_pairs, meant.question.meant.empty() ? 0 : meant.question.meant[0].scaling.head_dim);
    examined.push_back(examine_table(table, meant.question));
    auto report = report_turns(std::move(examined), meant, false);
    if (report.summary.explained) report.summary.layout = table.layout;
    return report;
  }
  const auto examine = [&](ProbedTensor tensor, const LoadedVectors& loaded) {
    meant = resolve(loaded.dump.head_dim, loaded.dump.positions);
    meant.question.head_dim = loaded.dump.head_dim;
    for (const RopeHypothesis& h : meant.question.meant) {
      if (h.scaling.head_dim != loaded.dump.head_dim) {
        throw std::invalid_argument(fmt::format("[probe] the vectors have {} channels but head_dim is {}.",
                                                loaded.dump.head_dim, h.scaling.head_dim));
      }
    }
    examined.push_back(examine_vectors(tensor, loaded, meant.question, context.threads));
  };
  if (source == Source::units) {
    examine(ProbedTensor::query, load_unit_vectors(*p.unit_vectors, positions));
  } else {
    if (p.query_input) examine(ProbedTensor::query, load_vectors(*p.query_input, *p.query_output, positions));
    if (p.key_input) examine(ProbedTensor::key, load_vectors(*p.key_input, *p.key_output, positions));
  }
  return report_turns(std::move(examined), meant, false);
}

Experiment describe_probe() {
  Experiment experiment = describe<Params, Summary, Row>(
      "probe", "What does an implementation of RoPE do, and which mistake parts it from what was meant?",
      "poslab probe --query-input q_in.npy --query-output q_out.npy --positions positions.npy --layout half "
      "--rope-theta 500000",
      run);
  experiment.verdicts = {"match", "mismatch"};
  return experiment;
}

const Registrar registrar("probe", describe_probe);

}  // namespace
}  // namespace poslab
