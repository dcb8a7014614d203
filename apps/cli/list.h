// `poslab list`: which experiments and commands there are.
#pragma once

#include <span>
#include <string>

#include "cli/streams.h"

namespace poslab::cli {

std::string list_text();
std::string list_json();

int run_list(std::span<const std::string> words, const Streams& streams);

}  // namespace poslab::cli
