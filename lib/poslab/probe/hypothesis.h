// What an implementation of RoPE might do: parameters, the slips on the way, and the rounding. `probe` compares such
// hypotheses with what an engine gave out.
#pragma once

#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "poslab/rope/numeric_profile.h"
#include "poslab/rope/rope.h"
#include "poslab/rope/scaling.h"

namespace poslab {

struct RopeHypothesis {
  RopeLayout layout = RopeLayout::half;
  std::int64_t first_channel = 0;          // of the block that rotates
  std::optional<RopeLayout> also_written;  // another layout in which the output may rightly stand
  RopeScaling scaling;
  std::optional<std::int64_t> seq_len;  // what a length-dependent scaling looked at
  RopeFrequencies frequencies;          // [rotary_dim / 2]; those of `scaling`, unless `bent`
  bool bent = false;                    // a slip gave frequencies that no scaling gives
  double position_scale = 1;            // the angle is sign * inv_freq * (position_scale * position + position_offset)
  double position_offset = 0;           // tokens
  double sign = 1;
  std::string profile = "f64";        // a word of numeric_profile
  std::vector<std::string> mistakes;  // names, empty where nothing went wrong
  std::string detail;                 // the values behind the last mistake, for a reader

  std::int64_t rotary_dim() const { return 2 * static_cast<std::int64_t>(frequencies.inv_freq.size()); }
  // "pairing swapped and rotated twice"; empty without mistakes.
  std::string mistake() const;
};

// The frequencies of `scaling` in place of what the hypothesis had. Throws as rope_frequencies does.
void set_scaling(RopeHypothesis& hypothesis, const RopeScaling& scaling);

// What the hypothesis multiplies the complex pairs (first + i * second) by.
class RopeTurns {
 public:
  // Throws std::invalid_argument "[numeric_profile] ..." for a profile that cannot be run with these frequencies.
  explicit RopeTurns(const RopeHypothesis& hypothesis);
  std::int64_t n_pairs() const { return rope_.n_pairs(); }
  double angle(double position, std::int64_t pair) const;  // radians, signed
  // attention_factor * exp(i * angle), rounded as the profile says.
  std::complex<double> operator()(double position, std::int64_t pair) const;

 private:
  ProfiledRope rope_;
  double attention_factor_, scale_, offset_, sign_;
};

// A slip that engines were seen to make, as a change of the meant hypothesis. `kind` groups those that can happen
// together: a wrong pairing and doubled positions, say, but not two attention factors.
struct NamedMistake {
  enum class Kind { pairing, position, frequency, attention_factor };
  Kind kind;
  RopeHypothesis hypothesis;  // the meant one with this slip alone
};

// Every named mistake that changes what `meant` does: positions and attention factors first, then frequencies.
// `head_dim` is the width of a head; `others` are the parameters of the model's other kinds of layers, by name.
std::vector<NamedMistake> named_mistakes(const RopeHypothesis& meant, std::int64_t head_dim,
                                         const std::vector<std::pair<std::string, RopeScaling>>& others);

// Both slips at once, where `second` is of another kind.
RopeHypothesis combine(const RopeHypothesis& meant, const NamedMistake& first, const NamedMistake& second);

}  // namespace poslab
