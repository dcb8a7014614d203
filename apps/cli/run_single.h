// One run without a sweep.
#pragma once

#include "cli/point.h"
#include "cli/streams.h"
#include "cli/text.h"

namespace poslab::cli {

// Returns the exit status 0 or 1 (an asked --expect failed).
int run_single(const Experiment& experiment, const Invocation& call, const Streams& streams, const TextStyle& style,
               const Note& note);

}  // namespace poslab::cli
