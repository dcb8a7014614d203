// Names what an implementation of RoPE does: what explains all that it gave out, the mistake that sets it apart from
// what was meant, and where that shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "poslab/core/fields.h"
#include "poslab/probe/evidence.h"
#include "poslab/probe/judge.h"
#include "poslab/probe/measure.h"

namespace poslab {

// match: every place lies within what the rounding of what was meant allows (nothing was meant: of some implementation
// without a mistake), and each gross mistake would have shown. mismatch: some place does not. undecided: all places
// do, but a gross mistake would look the same.
enum class ProbeVerdict { match, mismatch, undecided };
constexpr auto words(ProbeVerdict) {
  return word_table<ProbeVerdict>(
      {{ProbeVerdict::match, "match"}, {ProbeVerdict::mismatch, "mismatch"}, {ProbeVerdict::undecided, "undecided"}});
}

struct ProbeQuestion {
  // What the engine was meant to do, once per layout where that was left open; empty: nothing was said.
  std::vector<RopeHypothesis> meant;
  std::int64_t head_dim = 0;
  // Parameters of the model's other kinds of layers, by name.
  std::vector<std::pair<std::string, RopeScaling>> others;
  // The rounding that was meant, a word of numeric_profile; empty: any in f32 or finer is right.
  std::string profile;
};

struct ProbeFinding {
  ProbeVerdict verdict = ProbeVerdict::undecided;
  bool explained = false;
  std::string mistake, detail;             // empty: none; names that the data cannot tell apart are joined by " or "
  EngineModel model;                       // what explains the data, else what comes nearest
  Judgement found;                         // of `model`, over all rows
  std::optional<Judgement> meant;          // of what was meant; absent: nothing was
  std::string profile;                     // how the engine rounds, in words of numeric_profile
  MeasuredFrequencies measured;            // under the model's pairing and the positions given
  std::vector<double> pair_gains;          // [pairs] what each pair's length is multiplied by; 0: not told
  std::int64_t n_alternatives = 0;         // named mistakes that would change something here
  std::vector<std::string> not_ruled_out;  // those that would look the same in these data
  std::optional<double> dump_up_to;        // a position that would tell them apart
  std::vector<std::int64_t> silent_pairs;  // that are 0 throughout, so that they tell nothing
  // Where the engine differs from what was meant, each only where the others agree with it.
  std::vector<std::int64_t> wrong_pairs, wrong_heads, wrong_rows;
  std::optional<double> first_wrong_position;
  std::vector<double> used_positions;  // by the first rows that differ
};

// The name that a mistake gets when nothing explains the data.
inline constexpr std::string_view unexplained = "no known implementation explains the data";

ProbeFinding examine(const VectorDump& dump, const ProbeQuestion& question, int threads);

// inv_freq as an engine has it, [pairs] radians per token.
ProbeFinding examine_frequencies(const std::vector<double>& inv_freq, const ProbeQuestion& question);

}  // namespace poslab
