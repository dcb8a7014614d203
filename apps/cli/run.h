// The command line: picks the subcommand and turns every failure into one line on stderr and an exit status.
#pragma once

#include <span>
#include <string>

#include "cli/streams.h"

namespace poslab::cli {

// words: the arguments after the program's name. Returns 0 done, 1 an asked --expect failed, 2 any error;
// closed_pipe where the program that reads the output has ended.
inline constexpr int closed_pipe = 141;
int run(std::span<const std::string> words, const Streams& streams);

}  // namespace poslab::cli
