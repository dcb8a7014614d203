// What `probe` tells of its findings: the summary, a row for each pair or for each batch row and head, and a picture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/experiment.h"
#include "poslab/probe/probe.h"
#include "poslab/rope/rope.h"
#include "poslab/rope/scaling.h"

namespace poslab {

enum class ProbedTensor { query, key, table };
constexpr auto words(ProbedTensor) {
  return word_table<ProbedTensor>(
      {{ProbedTensor::query, "query"}, {ProbedTensor::key, "key"}, {ProbedTensor::table, "table"}});
}

struct ProbeSummary {
  ProbeVerdict verdict = ProbeVerdict::undecided;
  std::optional<std::string> mistake;
  std::optional<std::string> detail;
  bool explained = false;
  std::vector<std::int64_t> wrong_pairs, wrong_heads, wrong_rows;
  std::optional<double> first_wrong_position;
  std::vector<double> used_positions;
  double residual = 0;
  std::optional<double> intended_residual;
  std::optional<RopeLayout> layout;
  std::optional<std::int64_t> rotary_dim;
  std::optional<double> rope_theta;
  std::optional<RopeType> rope_type;
  std::optional<double> factor, original_max_position_embeddings, attention_factor;
  std::optional<std::string> profile;
  std::optional<double> noise;
  std::int64_t n_places = 0, n_alternatives = 0;
  std::optional<double> dump_up_to;
  std::vector<double> silent_positions;
  std::vector<std::int64_t> silent_pairs;
  std::vector<std::string> not_ruled_out;
  std::vector<std::string> warnings;

  static void fields(auto& self, auto&& field) {
    field("verdict", self.verdict,
          "match: every place lies within what rounding allows; mismatch: some place does not; undecided: these data "
          "would hide a gross mistake");
    field("mistake", self.mistake, "what sets the engine apart from what was meant (null: nothing)");
    field("detail", self.detail, "the values behind the mistake");
    field("explained", self.explained, "whether one account of the engine explains every place");
    field("wrong_pairs", self.wrong_pairs, "pairs that are wrong where others are right");
    field("wrong_heads", self.wrong_heads, "heads that are wrong where others are right");
    field("wrong_rows", self.wrong_rows, "batch rows that are wrong where others are right");
    field("first_wrong_position", self.first_wrong_position, "the lowest position that is wrong (null: none)",
          "tokens");
    field("used_positions", self.used_positions, "the positions that the engine used where they differ, the first 64",
          "tokens");
    field("residual", self.residual,
          "what the account, or the nearest one, leaves: root mean square relative to the data's");
    field("intended_residual", self.intended_residual, "the same of what was meant (null: nothing was)");
    field("layout", self.layout, "pairing that the engine uses (null from here on: the data do not say)");
    field("rotary_dim", self.rotary_dim, "channels that it rotates", "channels");
    field("rope_theta", self.rope_theta, "its base");
    field("rope_type", self.rope_type, "its scaling");
    field("factor", self.factor, "the scaling's factor");
    field("original_max_position_embeddings", self.original_max_position_embeddings, "the scaling's original length",
          "tokens");
    field("attention_factor", self.attention_factor, "what it multiplies cos and sin by");
    field("profile", self.profile, "how it rounds, as far as the data tell");
    field("noise", self.noise, "relative rounding of one stored value");
    field("n_places", self.n_places, "positions in the data, counted in each batch row");
    field("n_alternatives", self.n_alternatives, "named mistakes that would change something here");
    field("dump_up_to", self.dump_up_to, "position that would tell what not_ruled_out lists (null: none would)",
          "tokens");
    field("silent_positions", self.silent_positions,
          "the first positions in the data that tell nothing: what was meant fits there whatever the mistake, or "
          "nothing is rotated",
          "tokens");
    field("silent_pairs", self.silent_pairs, "pairs that are 0 in all inputs, so that they tell nothing");
    field("not_ruled_out", self.not_ruled_out, "mistakes that would look the same in these data");
    field("warnings", self.warnings, "what to know about the parameters");
  }
};

struct ProbeRow {
  ProbedTensor tensor = ProbedTensor::query;
  std::optional<std::int64_t> pair, batch_row, head;
  std::optional<double> measured_frequency, meant_frequency, gain;
  double worst_error = 0, worst_over_allowed = 0;
  std::optional<double> worst_at;
  std::int64_t wrong_places = 0;

  static void fields(auto& self, auto&& field) {
    field("tensor", self.tensor, "where the vectors came from");
    field("pair", self.pair, "number of the rotary pair");
    field("batch_row", self.batch_row, "batch row");
    field("head", self.head, "head");
    field("measured_frequency", self.measured_frequency, "how fast the engine rotates the pair (null: not told)",
          "rad/token");
    field("meant_frequency", self.meant_frequency, "how fast it should", "rad/token");
    field("gain", self.gain, "what the engine multiplies the pair's length by");
    field("worst_error", self.worst_error, "largest error of what was meant, relative to the pair's size");
    field("worst_over_allowed", self.worst_over_allowed, "the same over what rounding allows there; above 1 is wrong");
    field("worst_at", self.worst_at, "the position where it is largest", "tokens");
    field("wrong_places", self.wrong_places, "places above what rounding allows");
  }
};

// One tensor's finding.
struct Probed {
  ProbedTensor tensor = ProbedTensor::query;
  ProbeFinding finding;
  VectorDump dump;                         // without its values
  std::vector<double> meant_frequencies;   // of what was meant, else of what was found
  std::optional<RopeLayout> table_layout;  // of a table, how its columns repeat
};

using ProbeReport = TypedReport<ProbeSummary, ProbeRow>;

// `meant`: whether something was; `demo`: data made here; `detail`: rows by batch row and head.
ProbeReport report_probe(std::vector<Probed> probed, bool meant, bool demo, bool detail,
                         std::vector<std::string> warnings);

}  // namespace poslab
