// The parameters of an experiment by name.
#pragma once

#include <cstddef>
#include <string_view>

#include "experiments/experiment.h"

namespace poslab::cli {

// Throws UsageError "WHERE: EXPERIMENT has no parameter 'NAME'", with the nearest name.
std::size_t param_index(const Experiment& experiment, std::string_view name, std::string_view where);

// The parameters' defaults.
Record default_record(const Experiment& experiment);

}  // namespace poslab::cli
