// What a model of an engine does with each pair at a position, and by how much rounding may change it.
#pragma once

#include <complex>
#include <vector>

#include "poslab/probe/judge.h"

namespace poslab {

class Prediction {
 public:
  // Throws std::invalid_argument "[numeric_profile] ..." for a profile that cannot be run with these frequencies.
  Prediction(const EngineModel& model, Tolerance tolerance, DType stored_as);

  // maps [pairs]; slack [pairs]: how far a value may be off, relative to |x_first| + |x_second|, its storage apart.
  void at(double position, std::vector<PairMap>& maps, std::vector<double>& slack) const;

 private:
  struct Turned {
    std::complex<double> value;
    double slack;
  };
  Turned turned(double position, std::size_t pair) const;

  const EngineModel& model_;
  Tolerance tolerance_;
  RopeTurns turns_;
  std::vector<RopeTurns> apart_;  // the same with frequencies a last digit lower and higher
  std::vector<double> units_;     // [pairs] of 2^-24
  DType table_, rotation_;
};

}  // namespace poslab
