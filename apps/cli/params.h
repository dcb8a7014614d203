// The parameters of an experiment by name.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "experiments/experiment.h"

namespace poslab::cli {

// A line for stderr that is no error.
using Note = std::function<void(std::string)>;

// Throws UsageError "WHERE: EXPERIMENT has no parameter 'NAME'", with the nearest name. The name of a version ago is
// still taken, and told to `note`.
std::size_t param_index(const Experiment& experiment, std::string_view name, std::string_view where, const Note& note);

// "OLD is called NEW now; ...".
std::string rename_note(std::string_view old_name, std::string_view new_name);

// The parameters' defaults.
Record default_record(const Experiment& experiment);

}  // namespace poslab::cli
