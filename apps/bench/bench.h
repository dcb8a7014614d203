// `poslab bench`: the kernels on this machine, each beside the memcpy, fill or matrix product that bounds it.
#pragma once

#include "experiments/experiment.h"

namespace poslab {

// In the shape of an experiment, so that formats and outputs are the same; not in the registry, since no two runs of it
// agree.
const Experiment& bench();

}  // namespace poslab
