// Whether a model of an engine gives what the engine gave, place by place: each value is held against what rounding
// allows at that pair and position, and nothing is averaged.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "poslab/core/element_type.h"
#include "poslab/probe/hypothesis.h"
#include "poslab/probe/pairing.h"
#include "poslab/probe/vectors.h"

namespace poslab {

// How far an angle w p may be from its value in double, relative, in units of 2^-24:
//   hf       what a chain of f32 powers and products can be off by, pair by pair, as transformers computes
//   ggml     a running product over the pairs: two roundings with each
//   profile  the model's own numeric profile, computed, and the last digit of its frequencies
enum class Tolerance { hf, ggml, profile };

// Everything that an engine is taken to do.
struct EngineModel {
  RopeHypothesis rope;  // frequencies, scale, offset and sign of positions, profile; its layout is `pairing`'s
  Pairing pairing;
  double cos_gain = 1, sin_gain = 1;                // what multiplies cos and sin
  double gain_error = 0;                            // relative, of measured gains
  std::vector<double> frequency_error;              // [pairs] radians per token, of measured frequencies; empty: none
  std::vector<char> copied;                         // [pairs] left as they are, without any gain; empty: none
  std::shared_ptr<const std::vector<double>> used;  // [places, vectors] the positions it used; null: those given
};

EngineModel make_model(const RopeHypothesis& rope);

// Which rows of a dump are looked at: places x vectors.
struct Selection {
  std::vector<std::size_t> places, vectors;
};
Selection all_rows(const VectorDump& dump);
// The lowest positions, the highest, and steps between, from every batch row; a few vectors of each.
Selection sample_rows(const VectorDump& dump, std::size_t max_places = 96, std::size_t max_vectors = 4);

struct Judgement {
  Selection rows;
  std::int64_t n_pairs = 0;
  // Worst error over what is allowed (above 1: wrong) and worst error relative to the pair's size.
  std::vector<float> pair_ratio, pair_error;    // [pairs]
  std::vector<float> row_ratio, row_error;      // [places, vectors] over pairs and copied channels
  std::vector<float> place_ratio, place_error;  // [places, pairs] over vectors
  std::vector<double> pair_size;                // [pairs] largest |x| of a pair at a position other than 0
  double copied_ratio = 0;                      // of channels that should have been copied
  double residual = 0;                          // root mean square over all, relative to the output's, for readers
  double worst = 0;                             // of all ratios
  bool fits() const { return worst <= 1; }
  double share_wrong() const;  // of rows
};

// A model of more channels than the dump has fits nowhere. Results do not depend on `threads`.
Judgement judge(const VectorDump& dump, const EngineModel& model, Tolerance tolerance, Selection rows, int threads);

// What rounding of the output is nobody's mistake: a coarse storage of vectors, but not of tables.
DType judged_type(const VectorDump& dump);

// The half of the last digit of a stored value.
double half_ulp(DType type, double value);

}  // namespace poslab
