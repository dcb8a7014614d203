// The lesson, run from the embedded configs/lesson/*.json in the order of their names.
#pragma once

#include <span>
#include <string>

#include "cli/streams.h"

namespace poslab::cli {

int run_tour(std::span<const std::string> words, const Streams& streams);

}  // namespace poslab::cli
