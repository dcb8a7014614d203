// The subcommands: experiments, and the commands of cli itself.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace poslab::cli {

// A command of cli that is no experiment.
struct Command {
  std::string_view name, question;
};
std::span<const Command> commands();

// Every subcommand's name, experiments and commands, for suggestions and completions.
std::vector<std::string> subcommand_names();

// What `generate` prints: man, complete-bash, complete-zsh, complete-fish.
std::span<const std::string_view> generated_kinds();

// What `list` shows beside the experiments: methods, models, scalings.
std::span<const std::string_view> listed_kinds();

}  // namespace poslab::cli
