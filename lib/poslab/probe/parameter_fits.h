// Which parameters, other than those meant, give the frequencies that were measured.
#pragma once

#include <vector>

#include "poslab/probe/hypothesis.h"
#include "poslab/probe/measure.h"

namespace poslab {

// What was meant with one parameter of its scaling changed, or two, or another scaling with the same parameters, where
// that gives every measured frequency within its error; each with its mistake and the values behind it.
std::vector<RopeHypothesis> fit_parameters(const RopeHypothesis& meant, const MeasuredFrequencies& measured);

}  // namespace poslab
