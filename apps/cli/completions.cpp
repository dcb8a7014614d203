#include "cli/completions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "bench/bench.h"
#include "cli/commands.h"
#include "cli/invocation.h"
#include "cli/parse_value.h"
#include "experiments/experiment.h"
#include "poslab/model_configs/presets.h"

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

// A model that may be a preset says so in its help; others need weights, which presets do not have.
bool takes_preset(const FieldSpec& field) {
  return field.kind == FieldKind::path && field.name == "model" && field.help.find("preset") != std::string::npos;
}

std::string words_of(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

// What --sweep and --expect take depends on the experiment.
std::vector<std::string> offered(const Experiment& experiment, const FieldSpec& field) {
  if (field.name == "expect") return experiment.verdicts;
  if (field.name != "sweep") return field.words;
  std::vector<std::string> names;
  for (const FieldSpec& param : experiment.params) names.push_back(param.name + "=");
  return names;
}

// Words offered after a command that is no experiment.
std::string command_words(std::string_view name) {
  if (name == "generate") return fmt::format("{}", fmt::join(generated_kinds(), " "));
  if (name == "list") return fmt::format("{} --format", fmt::join(listed_kinds(), " "));
  if (name == "tour") return "--format --output --color --quiet --study";
  if (name == "bench") return words_of(flags_of(bench()));
  return {};
}

// Single quotes for sh-like shells.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// The bash command that completes a value; `:` where there is nothing to offer.
std::string bash_value(const Experiment& experiment, const FieldSpec& field) {
  if (takes_preset(field)) return "_poslab_models";
  if (field.kind == FieldKind::path) return "_poslab_files";
  const std::vector<std::string> words = offered(experiment, field);
  if (words.empty()) return ":";
  const char* function = field.name == "sweep" ? "_poslab_sweep" : field.list ? "_poslab_list" : "_poslab_words";
  return fmt::format("{} {}", function, quoted(words_of(words)));
}

// mapfile and quotes: a name with blanks, wildcards or $(...) in it is one word and is never run. Files are left to
// readline, which quotes them and ends a folder with a slash.
constexpr std::string_view bash_functions = R"(# bash completion for poslab
_poslab_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }
_poslab_list() {
  local head=
  if [[ $cur == *,* ]]; then head=${cur%,*},; fi
  mapfile -t COMPREPLY < <(compgen -P "$head" -W "$1" -- "${cur##*,}")
  compopt -o nospace 2>/dev/null
}
_poslab_sweep() {
  _poslab_words "$1"
  compopt -o nospace 2>/dev/null
}
_poslab_files() { compopt -o default 2>/dev/null; }
)";

}  // namespace

std::string bash_completion() {
  std::string out(bash_functions);
  out += fmt::format(
      "_poslab_models() {{\n  _poslab_words '{}'\n  ((${{#COMPREPLY[@]}})) || _poslab_files\n}}\n"
      "_poslab() {{\n"
      "  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} cmd=${{COMP_WORDS[1]}}\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n    _poslab_words '{} --help --version'\n    return\n  fi\n"
      "  if [[ $cur == = ]]; then\n    cur= prev=${{COMP_WORDS[COMP_CWORD-1]}}\n"
      "  elif [[ $prev == = ]]; then\n    prev=${{COMP_WORDS[COMP_CWORD-2]}}\n  fi\n"
      "  case \"$cmd $prev\" in\n",
      words_of(preset_names()), words_of(subcommand_names()));
  for (const std::string& name : experiment_names()) {
    const Experiment& experiment = *find_experiment(name);
    for (const FieldSpec& field : all_flags(experiment)) {
      if (field.kind == FieldKind::boolean) continue;
      out += fmt::format("    '{} {}') {}; return ;;\n", name, flag_of(field.name), bash_value(experiment, field));
    }
  }
  out += "  esac\n  case \"$cmd\" in\n";
  for (const std::string& name : experiment_names()) {
    const Experiment& experiment = *find_experiment(name);
    out += fmt::format("    {})\n", name);
    for (const FieldSpec& field : experiment.params) {
      if (field.name != experiment.positional) continue;
      out += fmt::format("      if [[ $cur != -* ]]; then {}; return; fi\n", bash_value(experiment, field));
    }
    out += fmt::format("      _poslab_words '{}' ;;\n", words_of(flags_of(experiment)));
  }
  for (const Command& command : commands()) {
    out += fmt::format("    {}) _poslab_words '{}' ;;\n", command.name, command_words(command.name));
  }
  out += fmt::format("    help) _poslab_words '{}' ;;\n", words_of(subcommand_names()));
  return out + "  esac\n}\ncomplete -F _poslab poslab\n";
}

namespace {

std::string zsh_escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// The action of a value in _arguments.
std::string zsh_value(const Experiment& experiment, const FieldSpec& field) {
  if (takes_preset(field)) return "_poslab_models";
  if (field.kind == FieldKind::path) return "_files";
  const std::vector<std::string> words = offered(experiment, field);
  if (words.empty()) return " ";
  if (field.name == "sweep") return fmt::format(" compadd -S \"\" -- {}", words_of(words));
  if (field.list) return fmt::format("_values -s , {} {}", field.name, words_of(words));
  return fmt::format("({})", words_of(words));
}

}  // namespace

std::string zsh_completion() {
  std::string out = fmt::format(
      "#compdef poslab\n_poslab_models() {{\n  _alternative 'presets:preset:({})' 'files:file:_files'\n}}\n"
      "_poslab() {{\n  if ((CURRENT == 2)); then\n    local -a subcommands=(\n",
      words_of(preset_names()));
  for (const std::string& name : experiment_names()) {
    out += fmt::format("      {}\n", quoted(name + ":" + find_experiment(name)->question));
  }
  for (const Command& command : commands()) {
    out += fmt::format("      {}\n", quoted(fmt::format("{}:{}", command.name, command.question)));
  }
  out += "    )\n    _describe subcommand subcommands\n    return\n  fi\n  case $words[2] in\n";
  for (const std::string& name : experiment_names()) {
    const Experiment& experiment = *find_experiment(name);
    out += fmt::format("    {})\n      _arguments '2:subcommand:' '--help[help]'", name);
    for (const FieldSpec& field : all_flags(experiment)) {
      const std::string flag = flag_of(field.name);
      const std::string help = zsh_escaped(field.help);
      if (field.kind == FieldKind::boolean) {
        out += fmt::format(" \\\n        {} \\\n        {}", quoted(fmt::format("{}[{}]", flag, help)),
                           quoted(fmt::format("--no-{}[not: {}]", flag.substr(2), help)));
        continue;
      }
      const std::string action = zsh_value(experiment, field);
      const char* repeated = field.name == "sweep" ? "*" : "";
      out += fmt::format(" \\\n        {}",
                         quoted(fmt::format("{}{}[{}]:{}:{}", repeated, flag, help, field.name, action)));
      if (field.name == experiment.positional) {
        out += fmt::format(" \\\n        {}", quoted(fmt::format("3:{}:{}", field.name, action)));
      }
    }
    out += " ;;\n";
  }
  for (const Command& command : commands()) {
    out += fmt::format("    {}) compadd -- {} ;;\n", command.name, command_words(command.name));
  }
  return out + fmt::format("    help) compadd -- {} ;;\n  esac\n}}\n_poslab \"$@\"\n", words_of(subcommand_names()));
}

std::string fish_completion() {
  std::string out = "# fish completion for poslab\ncomplete -c poslab -f\n";
  const auto subcommand = [&](std::string_view name, std::string_view question) {
    out += fmt::format("complete -c poslab -n __fish_use_subcommand -a {} -d {}\n", name, quoted(question));
  };
  for (const std::string& name : experiment_names()) subcommand(name, find_experiment(name)->question);
  for (const Command& command : commands()) subcommand(command.name, command.question);
  const std::string presets = quoted(words_of(preset_names()));
  for (const std::string& name : experiment_names()) {
    const Experiment& experiment = *find_experiment(name);
    const std::string seen = fmt::format("complete -c poslab -n '__fish_seen_subcommand_from {}'", name);
    for (const FieldSpec& field : all_flags(experiment)) {
      const std::string flag = flag_of(field.name).substr(2);
      std::string value;
      if (takes_preset(field)) {
        value = " -r -F -a " + presets;
      } else if (field.kind == FieldKind::path) {
        value = " -r -F";
      } else if (field.kind == FieldKind::boolean) {
        out += fmt::format("{} -l no-{}\n", seen, flag);
      } else if (const auto words = offered(experiment, field); !words.empty()) {
        value = " -x -a " + quoted(words_of(words));
      } else {
        value = " -x";
      }
      out += fmt::format("{} -l {}{} -d {}\n", seen, flag, value, quoted(field.help));
      if (field.name == experiment.positional && takes_preset(field)) {
        out += fmt::format("{} -F -a {}\n", seen, presets);
      }
    }
  }
  for (const Command& command : commands()) {
    if (const std::string words = command_words(command.name); !words.empty()) {
      out += fmt::format("complete -c poslab -n '__fish_seen_subcommand_from {}' -a {}\n", command.name, quoted(words));
    }
  }
  return out + fmt::format("complete -c poslab -n '__fish_seen_subcommand_from help' -a {}\n",
                           quoted(words_of(subcommand_names())));
}

}  // namespace poslab::cli
