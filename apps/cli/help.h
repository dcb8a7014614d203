// What --help prints.
#pragma once

#include <string>

#include "experiments/experiment.h"

namespace poslab::cli {

std::string overview();  // poslab --help
std::string help_text(const Experiment& experiment);

}  // namespace poslab::cli
