// From what an engine gave out to the parameters behind it, without knowing what was meant: measured turns to
// frequencies, frequencies to base, scaling method and its parameters.
#pragma once

#include <optional>
#include <vector>

#include "poslab/probe/evidence.h"
#include "poslab/probe/hypothesis.h"

namespace poslab {

// Scalings that give these frequencies within their errors, the simplest and nearest first: default (a power of one
// base), linear, proportional, and yarn, llama3 and ntk_by_parts over the usual lengths, factors and options. Round
// numbers are preferred within the error. `attention_factor` (to `attention_factor_error`, relative) tells the
// by-parts methods apart. Layout and mistakes are those of a default hypothesis, the mistakes that the frequencies
// themselves show named ("negative angle", "positions doubled or rotated twice").
std::vector<RopeHypothesis> explain_frequencies(const MeasuredFrequencies& measured, double attention_factor,
                                                double attention_factor_error);

// Hypotheses for vectors or tables, the most plausible pairings first: frequencies from neighbouring positions, made
// sharper by ever larger gaps; where no neighbours were dumped, from a list of known bases, factors and lengths. None
// has to fit: the caller compares each with the evidence.
std::vector<RopeHypothesis> infer_hypotheses(const TurnEvidence& evidence);

// The hypothesis with its positions ahead by the whole number of tokens, up to 2^17 either way, that the turns agree
// with best; absent where that is what the hypothesis says.
std::optional<RopeHypothesis> shifted(const TurnEvidence& evidence, const RopeHypothesis& hypothesis);

std::vector<RopeHypothesis> infer_hypotheses(const FrequencyEvidence& evidence);

// Names what sets an inferred implementation apart from the meant one, parameter by parameter.
void name_differences(const RopeHypothesis& meant, RopeHypothesis& found);

}  // namespace poslab
