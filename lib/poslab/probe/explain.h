// From what an engine gave out to what it does, and to the mistake that sets it apart from what was meant.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "poslab/probe/judge.h"
#include "poslab/probe/measure.h"
#include "poslab/probe/probe.h"

namespace poslab {

// One account of the data.
struct Explanation {
  EngineModel model;
  std::vector<std::string> mistakes;  // empty: as meant
  std::vector<std::string> details;
  std::vector<std::string> equals;  // other names of the last mistake
  int weight = 0;                   // mistakes, those that only describe counted twice
  Judgement judgement;              // over all rows
  std::string mistake() const;      // "a and b or c"
  bool fits() const { return judgement.fits(); }
};

struct Explained {
  Judgement meant;                  // what was meant, under the layout that comes nearest
  std::optional<Explanation> best;  // what explains the data, else what comes nearest
  bool explained = false;
};

// `meant`: one model; the pairing, the gains, the frequencies and the positions are varied until the data are
// explained.
Explained explain(const VectorDump& dump, const RopeHypothesis& meant, const ProbeQuestion& question, int threads);

// The judgement under whichever chain of roundings allows it, or under the profile that was meant.
Judgement judge_meant(const VectorDump& dump, const EngineModel& model, const ProbeQuestion& question,
                      const Selection& rows, int threads);

}  // namespace poslab
