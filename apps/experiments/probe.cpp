#include "poslab/probe/probe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "experiments/experiment.h"
#include "experiments/probe_report.h"
#include "experiments/rope_params.h"
#include "poslab/core/element_type.h"
#include "poslab/core/random.h"
#include "poslab/model_configs/family.h"
#include "poslab/model_configs/model_config.h"
#include "poslab/probe/dump.h"
#include "poslab/probe/hypothesis.h"

namespace poslab {
namespace {

constexpr RopeHelp help{.head_dim = "channels of one attention head; absent: the model's, else the data's"};

constexpr std::string_view no_mistake = "none";

struct Params {
  std::optional<FilePath> query_input, query_output, key_input, key_output;
  std::optional<FilePath> unit_vectors, cos, sin, inv_freq, positions_input;
  std::optional<RopeLayout> layout;
  RopeParams rope;
  std::optional<std::int64_t> seq_len;
  std::optional<std::string> profile;
  std::optional<std::string> demo;
  DType dtype = DType::f32;
  std::int64_t seed = 1;
  bool detail = false;

  static void fields(auto& self, auto&& field) {
    field("query_input", self.query_input,
          "queries before the rotation: FILE.npy, FILE.npz:NAME or FILE.safetensors:NAME, [..., seq_len, head_dim] or "
          "[..., "
          "seq_len, heads * head_dim]; absent: none");
    field("query_output", self.query_output, "the same queries after it; absent: none");
    field("key_input", self.key_input, "keys before it; absent: none");
    field("key_output", self.key_output, "the same keys after it; absent: none");
    field("unit_vectors", self.unit_vectors,
          "turned unit vectors, .npy [seq_len, head_dim, head_dim], in place of queries and keys; absent: none");
    field("cos", self.cos, "the engine's table of cosines, .npy [seq_len, n], in place of vectors; absent: none");
    field("sin", self.sin, "the engine's table of sines; absent: none");
    field("inv_freq", self.inv_freq,
          "the engine's frequencies, .npy [rotary_dim/2], in place of vectors; absent: none");
    field("positions_input", self.positions_input,
          "positions, [seq_len] or [batch, seq_len]; absent: 0, 1, 2, ...");
    renamed_from(field, "positions");
    field("layout", self.layout, "which pairing is meant; absent: the model's, else either");
    RopeParams::fields(self.rope, field, help);
    field("seq_len", self.seq_len, "length that length-dependent scalings look at; absent: the last position + 1",
          "tokens");
    field("profile", self.profile,
          "the rounding that is meant (see precision --profiles); absent: any in f32 or finer is right");
    field("demo", self.demo, "without files: make data with this mistake, or with none; absent: pairing swapped");
    field("dtype", self.dtype, "what the demo's vectors are stored in");
    field("seed", self.seed, "seed of the demo's vectors");
    field("detail", self.detail, "rows for each batch row and head too");
  }
};

bool anything_meant(const Params& p) { return p.layout || p.profile || to_record(p.rope) != to_record(RopeParams{}); }

bool is_mla(const ModelConfig& config) { return config.family && config.family->hf.reading == RopeReading::mla; }

struct Meant {
  ProbeQuestion question;
  std::vector<std::string> warnings;
};

// What the model adds to the meant parameters.
void add_model(ProbeQuestion& question, const ModelConfig& config, std::int64_t width) {
  for (const LayerPositions& layer : config.layers) {
    if (layer.encoding == ModelEncoding::rope && !layer.layer_type.empty()) {
      question.others.emplace_back(layer.layer_type, layer.rope);
    }
  }
  if (!is_mla(config)) return;
  for (RopeHypothesis& h : question.meant) {
    // A whole head ends with the part that rotates.
    if (width > h.scaling.head_dim) h.first_channel = width - h.rotary_dim();
    // The code of these models reads neighbours and writes halves; others write where they read.
    if (h.layout == RopeLayout::interleaved) h.also_written = RopeLayout::half;
  }
}

// `width`: channels of the data's heads.
Meant resolve_meant(const Params& p, std::int64_t width, double last_position) {
  RopeFallbacks fallbacks;
  fallbacks.head_dim = width;
  const ResolvedRope rope = resolve_rope(p.rope, fallbacks, p.seq_len);
  RopeHypothesis h;
  h.seq_len = rope.seq_len;
  if (!p.seq_len && rope.scaling.rope_type->follows_length != FollowsLength::no) {
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
  if (p.rope.model) add_model(meant.question, load_model_config(*p.rope.model), width);
  return meant;
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
  dump.stored_as = p.dtype;
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
  if (kinds == 0 && p.positions_input)
    throw std::invalid_argument("[probe] positions_input needs the vectors they belong to.");
  return query || key     ? Source::vectors
         : p.unit_vectors ? Source::units
         : table          ? Source::table
         : p.inv_freq     ? Source::frequencies
                          : Source::demo;
}

// Of a head as the vectors hold it, where a flag or the model says; of an MLA model only a part of a head rotates.
std::optional<std::int64_t> width_of_heads(const Params& p) {
  if (p.rope.head_dim || !p.rope.model) return p.rope.head_dim;
  const ModelConfig config = load_model_config(*p.rope.model);
  if (is_mla(config)) return std::nullopt;
  const LayerPositions& layer = layer_positions(config, p.rope.layer_type);
  return layer.encoding == ModelEncoding::rope ? std::optional(layer.rope.head_dim) : std::nullopt;
}

RopeHypothesis nearest_layout(const Meant& meant, RopeLayout layout) {
  for (const RopeHypothesis& h : meant.question.meant) {
    if (h.layout == layout) return h;
  }
  return meant.question.meant.front();
}

Probed probe_vectors(ProbedTensor tensor, LoadedVectors& loaded, const Meant& meant, int threads) {
  Probed p;
  p.tensor = tensor;
  p.finding = examine(loaded.dump, meant.question, threads);
  p.dump = loaded.dump;
  p.meant_frequencies = meant.question.meant.empty()
                            ? p.finding.model.rope.frequencies.inv_freq
                            : nearest_layout(meant, p.finding.model.pairing.read).frequencies.inv_freq;
  loaded = {};
  p.dump.input = p.dump.output = {};
  return p;
}

ProbeReport report_frequencies(const Params& p) {
  const std::vector<double> inv_freq = load_inv_freq(*p.inv_freq);
  Meant meant;
  const auto width = 2 * static_cast<std::int64_t>(inv_freq.size());
  if (anything_meant(p)) {
    Params q = p;
    q.layout = p.layout.value_or(RopeLayout::half);  // frequencies know no pairing
    meant = resolve_meant(q, width, static_cast<double>(p.seq_len.value_or(1) - 1));
  }
  meant.question.head_dim =
      std::max(width, meant.question.meant.empty() ? 0 : meant.question.meant[0].scaling.head_dim);
  Probed probed;
  probed.tensor = ProbedTensor::table;
  probed.finding = examine_frequencies(inv_freq, meant.question);
  probed.dump.has_pairing = false;
  const RopeHypothesis& shown = meant.question.meant.empty() ? probed.finding.model.rope : meant.question.meant.front();
  probed.meant_frequencies = shown.frequencies.inv_freq;
  return report_probe({std::move(probed)}, !meant.question.meant.empty(), false, false, std::move(meant.warnings));
}

ProbeReport report_table(const Params& p, const std::optional<NpyArray<double>>& positions, int threads) {
  LoadedTable table = load_table(*p.cos, *p.sin, positions);
  Meant meant;
  const std::int64_t width = table.vectors.dump.head_dim;
  if (anything_meant(p)) {
    const std::vector<double>& places = table.vectors.dump.positions;
    meant = resolve_meant(p, width, *std::max_element(places.begin(), places.end()));
  }
  const bool other_layout = p.layout && table.layout && *p.layout != *table.layout;
  meant.question.meant.resize(std::min<std::size_t>(1, meant.question.meant.size()));
  for (RopeHypothesis& h : meant.question.meant) h.layout = RopeLayout::half;
  meant.question.head_dim =
      std::max(width, meant.question.meant.empty() ? 0 : meant.question.meant[0].scaling.head_dim);
  Probed probed = probe_vectors(ProbedTensor::table, table.vectors, meant, threads);
  probed.table_layout = table.layout;
  if (other_layout) {
    ProbeFinding& f = probed.finding;
    f.verdict = ProbeVerdict::mismatch;
    f.mistake = f.mistake.empty() ? "table of the other layout" : "table of the other layout and " + f.mistake;
    f.detail = fmt::format("its columns repeat as {} pairs need them", to_word(*table.layout));
  }
  return report_probe({std::move(probed)}, !meant.question.meant.empty(), false, false, std::move(meant.warnings));
}

ProbeReport run(const Params& p, const RunContext& context) {
  const Source source = find_source(p);
  if (p.profile) numeric_profile(*p.profile);  // for its checks
  if (source == Source::frequencies) return report_frequencies(p);
  std::vector<Probed> probed;
  if (source == Source::demo) {
    const auto demo = make_demo(p);
    probed.push_back(probe_vectors(ProbedTensor::query, demo->loaded, demo->meant, context.threads));
    return report_probe(std::move(probed), true, true, p.detail, demo->meant.warnings);
  }
  std::optional<NpyArray<double>> positions;
  if (p.positions_input) positions = read_positions(*p.positions_input);
  if (source == Source::table) return report_table(p, positions, context.threads);
  Meant meant;
  const std::optional<std::int64_t> head_dim = width_of_heads(p);
  const auto load = [&](const std::string& input, const std::string& output) {
    return load_vectors(input, output, positions, head_dim);
  };
  const auto examine_one = [&](ProbedTensor tensor, LoadedVectors loaded) {
    const VectorDump& dump = loaded.dump;
    if (anything_meant(p)) {
      meant = resolve_meant(p, dump.head_dim, *std::max_element(dump.positions.begin(), dump.positions.end()));
    }
    meant.question.head_dim = dump.head_dim;
    for (const RopeHypothesis& h : meant.question.meant) {
      if (h.scaling.head_dim != dump.head_dim && h.first_channel == 0) {
        throw std::invalid_argument(
            fmt::format("[probe] the vectors have {} channels but head_dim is {}.", dump.head_dim, h.scaling.head_dim));
      }
    }
    probed.push_back(probe_vectors(tensor, loaded, meant, context.threads));
  };
  if (source == Source::units) {
    examine_one(ProbedTensor::query, load_unit_vectors(*p.unit_vectors, positions));
  } else {
    if (p.query_input) examine_one(ProbedTensor::query, load(*p.query_input, *p.query_output));
    if (p.key_input) examine_one(ProbedTensor::key, load(*p.key_input, *p.key_output));
  }
  return report_probe(std::move(probed), !meant.question.meant.empty(), false, p.detail, std::move(meant.warnings));
}

Experiment describe_probe() {
  Experiment experiment = describe<Params, ProbeSummary, ProbeRow>(
      "probe", "What does an implementation of RoPE do, and which mistake sets it apart from what was meant?",
      "poslab probe --query-input q_in.npy --query-output q_out.npy --positions-input positions.npy --layout half "
      "--rope-theta 500000",
      run);
  experiment.verdicts = {"match", "mismatch"};
  return experiment;
}

const Registrar registrar("probe", describe_probe);

}  // namespace
}  // namespace poslab
