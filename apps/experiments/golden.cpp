#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "experiments/experiment.h"
#include "experiments/rope_params.h"
#include "poslab/core/file_write.h"
#include "poslab/core/narrow.h"
#include "poslab/core/random.h"
#include "poslab/formats/npy.h"
#include "poslab/probe/judge.h"
#include "poslab/probe/prediction.h"

namespace poslab {
namespace {

struct Params {
  RopeParams rope;
  std::optional<RopeLayout> layout;
  std::optional<std::int64_t> seq_len;
  std::vector<double> positions = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 100, 1000, 4095};
  std::int64_t batch_size = 1, n_heads = 4, n_kv_heads = 2;
  std::string profile = "f32_table";
  DType dtype = DType::f32;
  std::int64_t seed = 1;
  std::optional<FilePath> folder;

  static void fields(auto& self, auto&& field) {
    RopeParams::fields(self.rope, field);
    field("layout", self.layout, "which channels form a pair; absent: the model's, else half");
    field("seq_len", self.seq_len, "length that length-dependent scalings look at; absent: the last position + 1",
          "tokens");
    field("positions", self.positions, "where the vectors stand; neighbours and some far ones", "tokens");
    field("batch_size", self.batch_size, "batch rows, all at the same positions");
    field("n_heads", self.n_heads, "heads of the queries");
    field("n_kv_heads", self.n_kv_heads, "heads of the keys");
    field("profile", self.profile, "how the expected values are rounded on the way (see precision --profiles)");
    field("dtype", self.dtype, "what the vectors are stored in; bf16 values stand in f32 files, as numpy has no bf16");
    field("seed", self.seed, "seed of the vectors");
    field("folder", self.folder, "where the files go; made if need be; absent: nothing is written", "path");
  }
};

struct Summary {
  RopeLayout resolved_layout = RopeLayout::half;
  std::int64_t resolved_rotary_dim = 0;
  double attention_factor = 1;
  std::int64_t n_places = 0;
  double largest_tolerance = 0;
  std::optional<std::string> written;
  std::vector<std::string> warnings;

  static void fields(auto& self, auto&& field) {
    field("resolved_layout", self.resolved_layout, "which channels form a pair");
    field("resolved_rotary_dim", self.resolved_rotary_dim, "channels that are rotated", "channels");
    field("attention_factor", self.attention_factor, "what cos and sin are multiplied by");
    field("n_places", self.n_places, "positions in each batch row");
    field("largest_tolerance", self.largest_tolerance,
          "the largest error that f32 allows at any place, relative to the pair's size");
    field("written", self.written, "the folder (null: nothing was written)");
    field("warnings", self.warnings, "what to know about the parameters");
  }
};

struct Row {
  std::string file, meaning, stored_as, shape;

  static void fields(auto& self, auto&& field) {
    field("file", self.file, "name in the folder");
    field("shape", self.shape, "sizes of its axes, 2x8x64");
    field("stored_as", self.stored_as, "element type in the file");
    field("meaning", self.meaning, "what it holds");
  }
};

struct GoldenFile {
  Row row;
  std::vector<std::int64_t> shape;
  DType type;
  std::vector<double> values;
};

class Golden {
 public:
  explicit Golden(const Params& p) : p_(p) {
    check_counts();
    const double last = *std::max_element(p.positions.begin(), p.positions.end());
    const ResolvedRope rope = resolve_rope(p.rope, RopeFallbacks{}, p.seq_len);
    warnings_ = rope.warnings;
    RopeHypothesis h;
    h.seq_len = rope.seq_len ? rope.seq_len : std::optional(static_cast<std::int64_t>(last) + 1);
    set_scaling(h, rope.scaling);
    h.profile = p.profile;
    h.layout = p.layout ? *p.layout : rope.layout.value_or(RopeLayout::half);
    model_ = make_model(h);
    turns_.emplace(h);
    head_dim_ = std::max(rope.scaling.head_dim, h.rotary_dim());
  }

  std::vector<GoldenFile> make() {
    std::vector<GoldenFile> files;
    const auto places = static_cast<std::int64_t>(p_.positions.size());
    const auto add = [&](std::string name, std::vector<std::int64_t> shape, DType type, std::string meaning,
                         std::vector<double> values) {
      // numpy has no bf16.
      if (type == DType::bf16) type = DType::f32;
      files.push_back(
          {{name + ".npy", std::move(meaning), std::string(to_word(type)), fmt::format("{}", fmt::join(shape, "x"))},
           std::move(shape),
           type,
           std::move(values)});
    };
    Generator generator(p_.seed);
    for (const auto& [name, heads] : {std::pair{"queries", p_.n_heads}, {"keys", p_.n_kv_heads}}) {
      const std::vector<std::int64_t> shape = {p_.batch_size, heads, places, head_dim_};
      std::vector<double> in = generator.normals(p_.batch_size * heads * places * head_dim_);
      for (double& v : in) v = round_to(p_.dtype, v);
      std::vector<double> out = rotated(in);
      add(fmt::format("{}_in", name), shape, p_.dtype, "before the rotation", std::move(in));
      add(fmt::format("{}_out", name), shape, p_.dtype, "after it", std::move(out));
    }
    const std::int64_t pairs = model_.pairing.n_pairs();
    std::vector<double> cosines, sines, tolerance;
    const Prediction prediction(model_, Tolerance::hf, p_.dtype);
    std::vector<PairMap> maps(static_cast<std::size_t>(pairs));
    std::vector<double> slack(maps.size());
    for (double position : p_.positions) {
      for (std::int64_t i = 0; i < pairs; ++i) {
        const std::complex<double> turn = (*turns_)(position, i);
        cosines.push_back(turn.real());
        sines.push_back(turn.imag());
      }
      prediction.at(position, maps, slack);
      tolerance.insert(tolerance.end(), slack.begin(), slack.end());
    }
    add("positions", {places}, DType::f64, "of every batch row and head", p_.positions);
    add("inv_freq", {pairs}, DType::f64, "radians per token, not rounded", model_.rope.frequencies.inv_freq);
    add("cos", {places, pairs}, DType::f32, "times the attention factor, as the profile rounds it", std::move(cosines));
    add("sin", {places, pairs}, DType::f32, "times the attention factor, as the profile rounds it", std::move(sines));
    add("tolerance", {places, pairs}, DType::f64,
        "largest error of a value that rounding in f32 allows, relative to |first| + |second| of its pair before the "
        "rotation; beside it the rounding of the stored value",
        std::move(tolerance));
    return files;
  }

  const EngineModel& model() const { return model_; }
  std::int64_t head_dim() const { return head_dim_; }
  std::vector<std::string>& warnings() { return warnings_; }

 private:
  void check_counts() const {
    constexpr std::int64_t most = std::int64_t{1} << 26;
    const auto refuse = [](std::string_view name, std::int64_t value) {
      throw std::invalid_argument(fmt::format("[golden] {} must be 1 or more but is {}.", name, value));
    };
    if (p_.batch_size < 1) refuse("batch_size", p_.batch_size);
    if (p_.n_heads < 1) refuse("n_heads", p_.n_heads);
    if (p_.n_kv_heads < 1) refuse("n_kv_heads", p_.n_kv_heads);
    if (p_.positions.empty()) throw std::invalid_argument("[golden] positions are empty.");
    const double rows = static_cast<double>(p_.batch_size) * static_cast<double>(p_.n_heads + p_.n_kv_heads);
    if (rows * static_cast<double>(p_.positions.size()) > static_cast<double>(most) / 64) {
      throw std::invalid_argument(
          "[golden] that many vectors are more than a test needs; take fewer positions or heads.");
    }
  }

  std::vector<double> rotated(const std::vector<double>& in) const {
    std::vector<double> out = in;
    const auto width = static_cast<std::size_t>(head_dim_);
    const DType step = numeric_profile(p_.profile).rotation;
    for (std::size_t row = 0; row * width < in.size(); ++row) {
      const double position = p_.positions[row % p_.positions.size()];
      const double* x = in.data() + row * width;
      double* y = out.data() + row * width;
      for (std::int64_t i = 0; i < model_.pairing.n_pairs(); ++i) {
        const auto [a, b] = model_.pairing.in(i);
        const std::complex<double> turn = (*turns_)(position, i);
        const auto times = [&](double u, double v) { return round_to(step, u * v); };
        y[a] = round_to(p_.dtype, round_to(step, times(x[a], turn.real()) - times(x[b], turn.imag())));
        y[b] = round_to(p_.dtype, round_to(step, times(x[b], turn.real()) + times(x[a], turn.imag())));
      }
    }
    return out;
  }

  const Params& p_;
  EngineModel model_;
  std::optional<RopeTurns> turns_;
  std::int64_t head_dim_ = 0;
  std::vector<std::string> warnings_;
};

std::string describe_files(const Params& p, const Golden& golden, const std::vector<GoldenFile>& files) {
  const EngineModel& m = golden.model();
  nlohmann::ordered_json j;
  j["golden"] = 1;
  j["model"] = p.rope.model ? nlohmann::ordered_json(*p.rope.model) : nlohmann::ordered_json();
  j["layout"] = to_word(m.pairing.read);
  j["pairs"] = m.pairing.read == RopeLayout::half ? "(i, i + rotary_dim/2)" : "(2i, 2i+1)";
  j["head_dim"] = golden.head_dim();
  j["rotary_dim"] = m.pairing.rotary_dim;
  j["rope_theta"] = m.rope.scaling.rope_theta;
  j["rope_type"] = to_word(m.rope.scaling.rope_type);
  j["attention_factor"] = m.cos_gain;
  j["profile"] = p.profile;
  j["profile_meaning"] = profile_meaning(p.profile);
  j["dtype"] = to_word(p.dtype);
  j["seed"] = p.seed;
  for (const GoldenFile& f : files) {
    nlohmann::ordered_json entry;
    entry["shape"] = f.shape;
    entry["stored_as"] = f.row.stored_as;
    entry["meaning"] = f.row.meaning;
    j["files"][f.row.file] = std::move(entry);
  }
  j["compare"] =
      "rotate queries_in and keys_in at positions; every value must be within tolerance * (|first| + |second|) of its "
      "pair before the rotation, plus half a unit in the last place of the stored type, of queries_out and keys_out; "
      "channels from rotary_dim on are copied";
  return j.dump(1) + "\n";
}

void write_bytes(const std::filesystem::path& path, std::string_view text, std::span<const std::byte> data) {
  const std::span<const std::byte> head = std::as_bytes(std::span(text.data(), text.size()));
  const std::span<const std::byte> parts[] = {head, data};
  write_file(path.string(), parts);
}

void write_all(const std::string& folder, const std::vector<GoldenFile>& files, const std::string& description) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw std::invalid_argument(fmt::format("[golden] cannot make {}: {}.", folder, error.message()));
  for (const GoldenFile& f : files) {
    std::vector<std::byte> bytes(f.values.size() * bytes_per_element(f.type));
    narrow_to_bytes(f.type, f.values, bytes.data());
    write_bytes(std::filesystem::path(folder) / f.row.file, npy_header(f.type, f.shape), bytes);
  }
  write_bytes(std::filesystem::path(folder) / "golden.json", description, {});
}

TypedReport<Summary, Row> run(const Params& p, const RunContext&) {
  numeric_profile(p.profile);  // for its checks
  Golden golden(p);
  const std::vector<GoldenFile> files = golden.make();
  TypedReport<Summary, Row> report;
  Summary& s = report.summary;
  s.resolved_layout = golden.model().pairing.read;
  s.resolved_rotary_dim = golden.model().pairing.rotary_dim;
  s.attention_factor = golden.model().cos_gain;
  s.n_places = static_cast<std::int64_t>(p.positions.size());
  s.largest_tolerance = *std::max_element(files.back().values.begin(), files.back().values.end());
  s.written = p.folder;
  s.warnings = std::move(golden.warnings());
  if (p.folder) write_all(*p.folder, files, describe_files(p, golden, files));
  for (const GoldenFile& f : files) report.rows.push_back(f.row);
  report.rows.push_back({"golden.json", "parameters, files, and how to compare", "json", {}});
  report.conclusion = fmt::format(
      "Queries and keys of {} heads at {} positions, what {} makes of them, and by how much an f32 engine may "
      "differ.\n{}",
      p.n_heads + p.n_kv_heads, p.positions.size(), p.profile,
      p.folder ? fmt::format("Written to {}; golden.json says how to compare.", *p.folder)
               : "Nothing was written: say --folder.");
  return report;
}

Experiment describe_golden() {
  return describe<Params, Summary, Row>("golden", "Which values must an engine's own test of its RoPE expect?",
                                        "poslab golden --model llama-3.1-8b --folder golden", run);
}

const Registrar registrar("golden", describe_golden);

}  // namespace
}  // namespace poslab
