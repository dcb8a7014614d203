#include "cli/completions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "bench/bench.h"
#include "cli/commands.h"
#include "cli/invocation.h"
#include "cli/parse_value.h"
#include "experiments/experiment.h"

namespace poslab::cli {
namespace {

std::vector<std::string> flags_of(const Experiment& experiment) {
  std::vector<std::string> flags{"--help"};
  for (const FieldSpec& field : all_flags(experiment)) {
    const std::string flag = flag_of(field.name);
    flags.push_back(flag);
    if (field.kind == FieldKind::boolean) flags.push_back("--no-" + flag.substr(2));
  }
  return flags;
}

bool is_path(const FieldSpec& field) {
  if (field.kind == FieldKind::path) return true;
  return field.kind == FieldKind::text && !field.list &&
         (field.name == "output" || field.name == "config" || field.name == "save_npy" || field.name == "model" ||
          field.help.find(".npy") != std::string::npos);
}

// Words offered after a command that is no experiment.
std::string command_words(std::string_view name) {
  if (name == "generate") return fmt::format("{}", fmt::join(generated_kinds(), " "));
  if (name == "list") return "--format";
  if (name == "tour") return "--format --study";
  if (name == "bench") return fmt::format("{}", fmt::join(flags_of(bench()), " "));
  return {};
}

// Single quotes for sh-like shells.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string bash_completion() {
  std::string out =
      "# bash completion for poslab\n"
      "_poslab() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd=${COMP_WORDS[1]}\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n";
  out += fmt::format("    COMPREPLY=($(compgen -W '{} --help --version' -- \"$cur\"))\n    return\n  fi\n",
                     fmt::join(subcommand_names(), " "));
  out += "  case \"$cmd $prev\" in\n";
  for (const std::string& name : experiment_names()) {
    for (const FieldSpec& field : all_flags(*find_experiment(name))) {
      if (field.words.empty()) {
        if (is_path(field)) {
          out +=
              fmt::format("    '{} {}') COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n", name, flag_of(field.name));
        }
        continue;
      }
      out += fmt::format("    '{} {}') COMPREPLY=($(compgen -W '{}' -- \"$cur\")); return ;;\n", name,
                         flag_of(field.name), fmt::join(field.words, " "));
    }
  }
  out += "  esac\n  case \"$cmd\" in\n";
  for (const std::string& name : experiment_names()) {
    out += fmt::format("    {}) COMPREPLY=($(compgen -W '{}' -- \"$cur\")) ;;\n", name,
                       fmt::join(flags_of(*find_experiment(name)), " "));
  }
  for (const Command& command : commands()) {
    out += fmt::format("    {}) COMPREPLY=($(compgen -W '{}' -- \"$cur\")) ;;\n", command.name,
                       command_words(command.name));
  }
  return out + "  esac\n}\ncomplete -F _poslab poslab\n";
}

std::string zsh_completion() {
  const auto escaped = [](std::string text) {
    std::string out;
    for (char c : text) {
      if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
      out += c;
    }
    return out;
  };
  std::string out = "#compdef poslab\n_poslab() {\n  if ((CURRENT == 2)); then\n    local -a subcommands=(\n";
  for (const std::string& name : experiment_names()) {
    out += fmt::format("      {}\n", quoted(name + ":" + find_experiment(name)->question));
  }
  for (const Command& command : commands()) {
    out += fmt::format("      {}\n", quoted(fmt::format("{}:{}", command.name, command.question)));
  }
  out += "    )\n    _describe subcommand subcommands\n    return\n  fi\n  case $words[2] in\n";
  for (const std::string& name : experiment_names()) {
    out += fmt::format("    {})\n      _arguments '2:subcommand:' '--help[help]'", name);
    for (const FieldSpec& field : all_flags(*find_experiment(name))) {
      const std::string flag = flag_of(field.name);
      const std::string help = escaped(field.help);
      if (field.kind == FieldKind::boolean) {
        out += fmt::format(" \\\n        {} \\\n        {}", quoted(fmt::format("{}[{}]", flag, help)),
                           quoted(fmt::format("--no-{}[not: {}]", flag.substr(2), help)));
      } else {
        const std::string action = !field.words.empty() ? fmt::format("({})", fmt::join(field.words, " "))
                                   : is_path(field)     ? "_files"
                                                        : " ";
        out += fmt::format(" \\\n        {}", quoted(fmt::format("{}[{}]:{}:{}", flag, help, field.name, action)));
      }
    }
    out += " ;;\n";
  }
  for (const Command& command : commands()) {
    out += fmt::format("    {}) compadd -- {} ;;\n", command.name, command_words(command.name));
  }
  return out + "  esac\n}\n_poslab \"$@\"\n";
}

std::string fish_completion() {
  std::string out = "# fish completion for poslab\ncomplete -c poslab -f\n";
  const auto subcommand = [&](std::string_view name, std::string_view question) {
    out += fmt::format("complete -c poslab -n __fish_use_subcommand -a {} -d {}\n", name, quoted(question));
  };
  for (const std::string& name : experiment_names()) subcommand(name, find_experiment(name)->question);
  for (const Command& command : commands()) subcommand(command.name, command.question);
  for (const std::string& name : experiment_names()) {
    for (const FieldSpec& field : all_flags(*find_experiment(name))) {
      const std::string flag = flag_of(field.name).substr(2);
      const std::string prefix = fmt::format("complete -c poslab -n '__fish_seen_subcommand_from {}' -l ", name);
      std::string line = prefix + flag;
      if (field.kind == FieldKind::boolean) {
        out += prefix + "no-" + flag + "\n";
      } else if (!field.words.empty()) {
        line += fmt::format(" -x -a {}", quoted(fmt::format("{}", fmt::join(field.words, " "))));
      } else {
        line += is_path(field) ? " -r -F" : " -x";
      }
      out += line + fmt::format(" -d {}\n", quoted(field.help));
    }
  }
  for (const Command& command : commands()) {
    if (const std::string offered = command_words(command.name); !offered.empty()) {
      out +=
          fmt::format("complete -c poslab -n '__fish_seen_subcommand_from {}' -a {}\n", command.name, quoted(offered));
    }
  }
  return out;
}

}  // namespace poslab::cli
