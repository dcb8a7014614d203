#include "cli/commands.h"

#include <algorithm>
#include <array>

#include "experiments/experiment.h"

namespace poslab::cli {
namespace {

constexpr std::array<Command, 4> command_table{{
    {"bench", "how near the machine's limit the kernels run here, each beside what bounds it"},
    {"generate", "print the man page or a shell's completions: man, complete-bash, complete-zsh, complete-fish"},
    {"list",
     "which experiments are there, with every field's type, unit and help (--format json); methods, models, scalings"},
    {"tour", "the lesson in steps: order blindness, seats, waves, turns, gaps, and a study of longer texts"},
}};

constexpr std::array<std::string_view, 4> kinds{"man", "complete-bash", "complete-zsh", "complete-fish"};
constexpr std::array<std::string_view, 3> lists{"methods", "models", "scalings"};

}  // namespace

std::span<const Command> commands() { return command_table; }
std::span<const std::string_view> generated_kinds() { return kinds; }
std::span<const std::string_view> listed_kinds() { return lists; }

std::vector<std::string> subcommand_names() {
  std::vector<std::string> names = experiment_names();
  for (const Command& command : commands()) names.emplace_back(command.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace poslab::cli
