// Texts made from the registry: --help, the list of subcommands, the man page, shell completions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/experiment.h"

namespace poslab::cli {

// A command of cli that is no experiment.
struct Command {
  std::string_view name, question;
};
std::span<const Command> commands();

// Every subcommand's name, experiments and commands, for suggestions and completions.
std::vector<std::string> subcommand_names();

std::string overview();  // poslab --help
std::string help_text(const Experiment& experiment);
std::string list_text();
std::string list_json();

// what: man, complete-bash, complete-zsh, complete-fish.
std::span<const std::string_view> generated_kinds();
std::string generate(std::string_view what);

}  // namespace poslab::cli
