// What vectors before and after say of each pair's angle and gain, without any frequency or position taken for granted.
#pragma once

#include <complex>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "poslab/probe/judge.h"

namespace poslab {

// One row: cos + i sin of each pair, their gains taken out.
struct RowTurns {
  std::vector<std::complex<double>> turn;  // [pairs]
  std::vector<double> error;               // [pairs] radians; infinite where the pair says nothing
};

struct Gains {
  double cos = 1, sin = 1;
  double error = 0;        // relative
  double share_wrong = 1;  // of the turns that no gain brings to length 1
  bool told = false;       // whether any pair said something
};

// `wanted` is taken where the data agree with it. All turns have the same length under the right pairing, except where
// cos and sin have gains of their own.
Gains measure_gains(const VectorDump& dump, const Pairing& pairing, double wanted, const Selection& rows);

// [pairs] the mean length of each pair's turns; 0 where none says anything.
std::vector<double> measure_pair_gains(const VectorDump& dump, const Pairing& pairing, const Selection& rows);

RowTurns measure_row(const VectorDump& dump, const Pairing& pairing, const Gains& gains, std::size_t place,
                     std::size_t vector);

// How fast each pair rotates, with the error to expect; a negative value rotates backwards. Infinite errors where the
// positions are too far apart to tell.
struct MeasuredFrequencies {
  std::vector<double> value, error;  // [pairs] radians per token
};

// From phase differences between positions, the smallest gap first, each larger one as long as the number of whole
// rotations is beyond doubt. The origin, where nothing is rotated, counts as a position.
MeasuredFrequencies measure_frequencies(const VectorDump& dump, const Pairing& pairing, const Gains& gains,
                                        const Selection& rows);

// The position (in tokens) at which all pairs agree, given how fast each rotates (signed, radians per token): the
// slowest pair tells it coarsely, each faster one more finely. Absent where they do not agree.
struct UsedPosition {
  double value = 0, error = 0;
};
std::optional<UsedPosition> solve_position(const RowTurns& row, std::span<const double> frequency, double reach);

}  // namespace poslab
