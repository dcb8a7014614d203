// All points of a sweep, computed side by side and written in order.
#pragma once

#include "cli/point.h"
#include "cli/streams.h"
#include "cli/text.h"

namespace poslab::cli {

// Returns the exit status 0 or 1 (an asked --expect failed at some point).
int run_sweep(const Experiment& experiment, const Invocation& call, const Streams& streams, const TextStyle& style,
              const Note& note);

}  // namespace poslab::cli
