// Completions of subcommands, flags and words for the shells.
#pragma once

#include <string>

namespace poslab::cli {

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace poslab::cli
