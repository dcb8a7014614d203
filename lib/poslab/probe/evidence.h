// What an engine gave out, brought to one form: by which complex number each pair was multiplied at each position, how
// noisy that is, and how far a hypothesis is from it.
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

namespace poslab {

// Vectors before and after an engine turned them.
struct VectorDump {
  std::span<const double> input, output;
  std::int64_t head_dim = 0;
  std::int64_t n_vectors = 1;                         // at each place
  std::vector<double> positions;                      // [places] tokens
  std::vector<std::int64_t> input_rows, output_rows;  // [places, n_vectors] where each row of head_dim begins
};

// cos and sin as an engine tabulated them, duplicates removed.
struct TableDump {
  std::vector<std::complex<double>> turns;  // [places, n_pairs] cos + i sin
  std::vector<double> positions;            // [places] tokens
};

// How a hypothesis fares: squared distances in units of the noise's variance.
struct Misfit {
  double turns = 0;  // the turned pairs alone
  double total = 0;  // with what no turning of these pairs explains, and channels that should have been copied
};

// How fast each pair turns, with the error to expect; a negative value turns backwards.
struct MeasuredFrequencies {
  std::vector<double> value, error;  // [pairs] radians per token
};

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

// What hypotheses are compared with. The methods are not for several threads at once.
class ProbeEvidence {
 public:
  virtual ~ProbeEvidence() = default;
  virtual bool shows(NamedMistake::Kind kind) const = 0;  // whether such a mistake would leave a trace
  virtual bool still() const = 0;                         // every position is 0, where nothing turns
  // Whether no hypothesis can be acceptable: the noise is beyond the rounding of any stored type.
  virtual bool hopeless() const = 0;
  // Absent where the hypothesis cannot be compared with the data.
  virtual std::optional<Misfit> misfit(const RopeHypothesis& hypothesis) const = 0;
  // Degrees of freedom behind misfit.turns.
  virtual double dof(const RopeHypothesis& hypothesis) const = 0;
  virtual bool acceptable(const RopeHypothesis& hypothesis, const Misfit& misfit) const = 0;
};

class TurnEvidence : public ProbeEvidence {
 public:
  // Both sample up to max_places of the places: the lowest, the highest, and some between.
  static constexpr std::size_t max_places = 96;
  static TurnEvidence from_vectors(const VectorDump& dump);
  static TurnEvidence from_table(const TableDump& dump);

  std::span<const double> positions() const { return positions_; }
  // Relative error of one value, from the type it was stored in or, if that is larger, from what the best pairing
  // leaves unexplained. At position p an f32 angle adds 2^-24 p.
  double noise() const { return noise_; }
  double noise_at(double position) const;
  DType stored_as() const { return stored_as_; }
  bool has_pairing() const { return head_dim_ > 0; }   // vectors, whose pairing is to be found
  std::int64_t head_dim() const { return head_dim_; }  // of vectors
  // Nothing where the width does not fit the data.
  const MeasuredTurns* measured(RopeLayout layout, std::int64_t rotary_dim) const;
  // The pairings whose noise is within reach of the least, best first.
  const std::vector<std::pair<RopeLayout, std::int64_t>>& plausible_pairings() const { return plausible_; }

  bool shows(NamedMistake::Kind kind) const override;
  bool still() const override;
  bool hopeless() const override;
  std::optional<Misfit> misfit(const RopeHypothesis& hypothesis) const override;
  double dof(const RopeHypothesis& hypothesis) const override;
  bool acceptable(const RopeHypothesis& hypothesis, const Misfit& misfit) const override;
  // Mean squared distance at each sampled place, in units of the noise's variance.
  std::vector<double> misfit_by_place(const RopeHypothesis& hypothesis) const;

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
class FrequencyEvidence : public ProbeEvidence {
 public:
  explicit FrequencyEvidence(std::vector<double> inv_freq);

  const MeasuredFrequencies& measured() const { return measured_; }
  DType stored_as() const { return stored_as_; }

  bool still() const override { return false; }
  bool hopeless() const override { return false; }
  bool shows(NamedMistake::Kind kind) const override { return kind == NamedMistake::Kind::frequency; }
  std::optional<Misfit> misfit(const RopeHypothesis& hypothesis) const override;
  double dof(const RopeHypothesis& hypothesis) const override;
  bool acceptable(const RopeHypothesis& hypothesis, const Misfit& misfit) const override;

 private:
  MeasuredFrequencies measured_;
  DType stored_as_;
};

// Whether `worse` is further off than `better` beyond what noise can do.
bool clearly_worse(const Misfit& worse, const Misfit& better);

// The coarsest type that holds all values: how they were stored.
DType storage_type(std::span<const double> values);

// The root mean square of what the hypothesis leaves, relative to that of the output, at each place of the whole dump.
std::vector<double> residuals(const VectorDump& dump, const RopeHypothesis& hypothesis, int threads);
std::vector<double> residuals(const TableDump& dump, const RopeHypothesis& hypothesis);

}  // namespace poslab
