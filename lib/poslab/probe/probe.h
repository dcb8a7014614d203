// Names what an implementation of RoPE does: the hypothesis that explains what it gave out, and the mistake that
// parts it from what was meant.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "poslab/probe/evidence.h"
#include "poslab/probe/hypothesis.h"

namespace poslab {

// match: what was meant explains the data (nothing was meant: some implementation without a mistake does).
// mismatch: something else explains them, or nothing does. undecided: what was meant explains them, but so would a
// gross mistake, since the data hardly turn.
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

struct RankedHypothesis {
  RopeHypothesis hypothesis;
  Misfit misfit;
  int complexity = 0;  // 0: without a mistake; each mistake, coarse rounding and guessed parameters add to it
  bool acceptable = false;
};

struct ProbeFinding {
  ProbeVerdict verdict = ProbeVerdict::undecided;
  std::optional<RankedHypothesis> best;  // what explains the data, else the nearest; absent: nothing comparable
  bool explained = false;
  std::string mistake;                     // empty: none; names that the data cannot tell apart are joined by " or "
  std::vector<std::string> not_ruled_out;  // mistakes that would look the same in these data
  std::vector<RankedHypothesis> alternatives;  // the named mistakes, each as it fares
};

// `infer` is asked for hypotheses without regard to what was meant, where no named mistake explains the data.
ProbeFinding probe(const ProbeEvidence& evidence, const ProbeQuestion& question,
                   const std::function<std::vector<RopeHypothesis>()>& infer);

// The name that a mistake gets when nothing explains the data.
inline constexpr std::string_view unexplained = "no known implementation explains the data";

// By how much each position tells the two apart: the root mean square difference of their turns.
double difference_at(const RopeTurns& a, const RopeTurns& b, double position);

}  // namespace poslab
