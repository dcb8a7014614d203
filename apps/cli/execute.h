// Runs one experiment: parameters merged, outputs opened, points computed and written in order.
#pragma once

#include <string>
#include <string_view>

#include "cli/arguments.h"
#include "cli/run_options.h"
#include "cli/streams.h"
#include "experiments/experiment.h"

namespace poslab::cli {

// Returns the exit status 0 or 1; errors are thrown.
int execute(const Experiment& experiment, const Arguments& arguments, const Streams& streams);

// One run of an embedded config (`source` names it), for the tour: text or one line of JSON.
void execute_embedded(const Experiment& experiment, std::string_view config, std::string_view source, Format format,
                      const Streams& streams, bool color, std::string& out);

bool use_color(Color color, bool is_terminal);

}  // namespace poslab::cli
