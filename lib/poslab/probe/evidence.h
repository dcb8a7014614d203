// What an engine gave out, without a word about what was meant: by which complex number each pair was multiplied under
// every plausible pairing, and how noisy that is.
#pragma once

#include <complex>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "poslab/core/element_type.h"
#include "poslab/probe/hypothesis.h"
#include "poslab/probe/measure.h"
#include "poslab/probe/vectors.h"

namespace poslab {

// The turns that a pairing of the channels shows at the sampled places.
struct MeasuredTurns {
  std::int64_t n_pairs = 0;
  std::vector<std::complex<double>> turn;  // [places, n_pairs] least squares over the vectors
  std::vector<double> weight;              // [places, n_pairs] vectors that speak; less where the pair is nearly 0
  std::vector<double> unexplained;         // [places] what one turn for all vectors leaves, relative to the pairs' size
  std::vector<double> uncopied;            // [places] the change of channels beyond the pairs, relative to their size
  double spare_dof = 0;                    // degrees of freedom behind `unexplained`
  double attention_factor = 1;             // the median length of a turn
  double noise = 0;                        // relative, of one value: from `unexplained` and the turns' lengths
};

// Up to max_places of the places: the lowest, the highest, and some between. Not for several threads at once.
class TurnEvidence {
 public:
  static constexpr std::size_t max_places = 96;
  static TurnEvidence from_vectors(const VectorDump& dump);

  std::span<const double> positions() const { return positions_; }
  // Relative error of one value, from the type it was stored in or, if that is larger, from what the best pairing
  // leaves unexplained. At position p an f32 angle adds 2^-24 p.
  double noise() const { return noise_; }
  double noise_at(double position) const;
  std::int64_t head_dim() const { return head_dim_; }
  // Nothing where the width does not fit the data.
  const MeasuredTurns* measured(RopeLayout layout, std::int64_t rotary_dim) const;
  // The pairings whose noise is within reach of the least, best first.
  const std::vector<std::pair<RopeLayout, std::int64_t>>& plausible_pairings() const { return plausible_; }

 private:
  MeasuredTurns measure(RopeLayout layout, std::int64_t rotary_dim, std::size_t place_step) const;
  void find_pairings();

  std::vector<double> positions_;
  std::int64_t head_dim_ = 0, n_vectors_ = 1;
  std::vector<double> input_, output_;  // [places, n_vectors, head_dim]
  DType stored_as_ = DType::f64;
  double noise_ = 0;
  std::vector<std::pair<RopeLayout, std::int64_t>> plausible_;
  mutable std::map<std::pair<RopeLayout, std::int64_t>, MeasuredTurns> measured_;  // at first use
};

// inv_freq as an engine gave it out.
class FrequencyEvidence {
 public:
  explicit FrequencyEvidence(std::vector<double> inv_freq);

  const MeasuredFrequencies& measured() const { return measured_; }
  DType stored_as() const { return stored_as_; }

 private:
  MeasuredFrequencies measured_;
  DType stored_as_;
};

}  // namespace poslab
