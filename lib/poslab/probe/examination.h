// What the evidence of one tensor, or of a table, says of the hypotheses: what fits, where it breaks off, what it
// hides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/core/element_type.h"
#include "poslab/core/fields.h"
#include "poslab/probe/dump.h"
#include "poslab/probe/hypothesis.h"
#include "poslab/probe/probe.h"

namespace poslab {

enum class ProbedTensor { query, key, table };
constexpr auto words(ProbedTensor) {
  return word_table<ProbedTensor>(
      {{ProbedTensor::query, "query"}, {ProbedTensor::key, "key"}, {ProbedTensor::table, "table"}});
}

// One tensor's evidence and what came of it.
struct Examined {
  ProbedTensor tensor = ProbedTensor::query;
  std::vector<double> positions;
  double noise = 0;
  DType stored_as = DType::f64;
  bool has_pairing = true;
  ProbeFinding finding;
  std::vector<double> fit, meant;  // residuals by place
};

Examined examine_vectors(ProbedTensor tensor, const LoadedVectors& loaded, const ProbeQuestion& question, int threads);
Examined examine_table(const LoadedTable& table, const ProbeQuestion& question);

// Places that the hypothesis does not fit, where it fits most of the others and clearly sets them apart.
struct Breaks {
  std::vector<double> positions;  // ascending
  bool to_the_end = false;        // no place after the first of them fits
};

// `left`: residuals by place of the hypothesis.
Breaks find_breaks(const Examined& examined, const std::vector<double>& left);

double root_mean_square(const std::vector<double>& values);

bool ruled_out_by_name(const ProbeFinding& finding, std::string_view name);

// The named mistakes that one place alone would show.
std::int64_t n_ruled_out_at(const Examined& examined, double position);

// How the engine rounds, in words of `precision`: what was stored is as fine as its type at best.
std::string shown_profile(const Examined& examined, const RopeHypothesis& found);

// The least power of two at which every alternative that is still open would show.
std::optional<double> telling_position(const Examined& examined);

// Positions where what was meant fits as well as the mistake, or, without one, where nothing turns.
std::vector<double> find_silent(const Examined& examined);

}  // namespace poslab
