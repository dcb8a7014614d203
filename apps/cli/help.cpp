#include "cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "cli/bench.h"
#include "cli/build_info.h"
#include "cli/execute.h"
#include "cli/parse_value.h"
#include "cli/run_options.h"
#include "poslab/report/document.h"

namespace poslab::cli {
namespace {

constexpr std::array<Command, 4> command_table{{
    {"bench", "how near the machine's limit the kernels run here, each beside what bounds it"},
    {"generate", "print the man page or a shell's completions: man, complete-bash, complete-zsh, complete-fish"},
    {"list", "which experiments are there, with every field's type, unit and help (--format json)"},
    {"tour", "the lesson in steps: order blindness, seats, waves, turns, gaps, and a study of longer texts"},
}};

constexpr std::array<std::string_view, 4> kinds{"man", "complete-bash", "complete-zsh", "complete-fish"};

std::string default_text(const FieldSpec& field) {
  std::string text;
  if (std::holds_alternative<std::monostate>(field.fallback)) return text;
  if (const auto* word = std::get_if<std::string>(&field.fallback)) {
    text = *word;
  } else if (const auto* words = std::get_if<std::vector<std::string>>(&field.fallback)) {
    text = fmt::format("{}", fmt::join(*words, ","));
  } else {
    append_json(text, field.fallback);
    std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == ' '; });
  }
  return text;
}

std::string value_name(const FieldSpec& field) {
  if (field.kind == FieldKind::word) return fmt::format("{}{}", fmt::join(field.words, "|"), field.list ? ",..." : "");
  std::string name;
  switch (field.kind) {
    case FieldKind::integer:
      name = "N";
      break;
    case FieldKind::real:
      name = "X";
      break;
    case FieldKind::path:
      name = "PATH";
      break;
    default:
      name = "TEXT";
  }
  return field.list ? name + "," + name + ",..." : name;
}

// --flag, or --[no-]flag for a boolean parameter.
std::string flag_usage(const FieldSpec& field) {
  const std::string flag = flag_of(field.name);
  return field.kind == FieldKind::boolean ? "--[no-]" + flag.substr(2) : flag;
}

std::string explained(const FieldSpec& field) {
  std::string text = field.help;
  if (!field.unit.empty()) text += fmt::format(" ({})", field.unit);
  if (const std::string fallback = default_text(field); !fallback.empty()) text += fmt::format(" [{}]", fallback);
  return text;
}

void append_flags(std::string& out, const std::vector<FieldSpec>& fields) {
  for (const FieldSpec& field : fields) {
    std::string left = flag_usage(field);
    if (field.kind != FieldKind::boolean) left += " " + value_name(field);
    const std::string text = explained(field);
    if (left.size() <= 26) {
      out += fmt::format("  {:<26}  {}\n", left, text);
    } else {
      out += fmt::format("  {}\n  {:<26}  {}\n", left, "", text);
    }
  }
}

std::string field_json(const FieldSpec& field, bool with_default) {
  std::string out = "{\"name\": ";
  append_json_string(out, field.name);
  out += ", \"type\": ";
  append_json_string(out, type_name(field));
  out += ", \"unit\": ";
  append_json_string(out, field.unit);
  out += ", \"help\": ";
  append_json_string(out, field.help);
  out += fmt::format(", \"list\": {}, \"optional\": {}", field.list, field.optional);
  if (!field.words.empty()) {
    out += ", \"words\": ";
    append_json(out, field.words);
  }
  if (with_default) {
    out += ", \"default\": ";
    append_json(out, field.fallback);
  }
  return out + "}";
}

std::string fields_json(const std::vector<FieldSpec>& fields, bool with_default) {
  std::string out = "[";
  for (std::size_t i = 0; i < fields.size(); ++i) {
    out += (i ? ",\n      " : "\n      ") + field_json(fields[i], with_default);
  }
  return out + (fields.empty() ? "]" : "\n    ]");
}

// --- man page ---

std::string roff(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  if (out.starts_with('.') || out.starts_with('\'')) out.insert(0, "\\&");
  return out;
}

void append_man_flags(std::string& out, const std::vector<FieldSpec>& fields) {
  for (const FieldSpec& field : fields) {
    const std::string flag = flag_of(field.name);
    if (field.kind == FieldKind::boolean) {
      out += fmt::format(".TP\n.BR {} \", \" {}\n", roff(flag), roff("--no-" + flag.substr(2)));
    } else {
      out += fmt::format(".TP\n.BI {} \" {}\"\n", roff(flag), roff(value_name(field)));
    }
    out += roff(explained(field)) + "\n";
  }
}

std::string man_page() {
  std::string out = fmt::format(".TH POSLAB 1 \"\" \"poslab {}\" \"User Commands\"\n", version());
  out += ".SH NAME\nposlab \\- a laboratory for the positional encodings of transformers\n";
  out += ".SH SYNOPSIS\n.B poslab\n.I SUBCOMMAND\n[\n.I flags\n]\n";
  out += ".SH DESCRIPTION\n";
  out += roff(
             "Each subcommand runs one experiment and prints text for a reader or a JSON, NDJSON or CSV document for "
             "a program. Parameters come from --config, then flags, then the points of --sweep.") +
         "\n";
  out += ".SH RUN OPTIONS\nThe same for every experiment.\n";
  append_man_flags(out, field_specs<RunOptions>());
  out += ".SH EXPERIMENTS\n";
  for (const std::string& name : experiment_names()) {
    const Experiment& experiment = *find_experiment(name);
    out += fmt::format(".SS {}\n{}\n.PP\nExample:\n.B {}\n", roff(name), roff(experiment.question),
                       roff(experiment.example));
    append_man_flags(out, experiment.params);
  }
  out += ".SH OTHER COMMANDS\n";
  for (const Command& command : commands()) {
    out += fmt::format(".TP\n.B {}\n{}\n", roff(command.name), roff(command.question));
  }
  out += ".SH EXIT STATUS\n0: done. 1: an asked \\-\\-expect failed. 2: any error.\n";
  out += ".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nNo colours unless \\-\\-color always.\n";
  out += ".TP\n.B POSLAB_ISA\nForces an instruction set: scalar, avx2, avx512.\n";
  return out;
}

// --- completions ---

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
  if (name == "generate") return fmt::format("{}", fmt::join(kinds, " "));
  if (name == "list") return "--format";
  if (name == "tour") return "--format --study";
  if (name == "bench") return fmt::format("{}", fmt::join(flags_of(bench()), " "));
  return {};
}

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

// Single quotes for sh-like shells.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
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

}  // namespace

std::span<const Command> commands() { return command_table; }
std::span<const std::string_view> generated_kinds() { return kinds; }

std::vector<std::string> subcommand_names() {
  std::vector<std::string> names = experiment_names();
  for (const Command& command : commands()) names.emplace_back(command.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string overview() {
  std::string out =
      "poslab: a laboratory for the positional encodings of transformers\n\n"
      "usage: poslab SUBCOMMAND [flags]      poslab SUBCOMMAND --help\n\n";
  return out + list_text() + "\nposlab --version tells what this binary is.\n";
}

std::string list_text() {
  std::string out = "experiments\n";
  for (const std::string& name : experiment_names()) {
    out += fmt::format("  {:<14}  {}\n", name, find_experiment(name)->question);
  }
  out += "commands\n";
  for (const Command& command : commands()) out += fmt::format("  {:<14}  {}\n", command.name, command.question);
  return out;
}

std::string list_json() {
  std::string out = "{\n  \"schema\": 1,\n  \"experiments\": [";
  bool first = true;
  for (const std::string& name : experiment_names()) {
    const Experiment& e = *find_experiment(name);
    out += first ? "\n    {\"name\": " : ",\n    {\"name\": ";
    first = false;
    append_json_string(out, e.name);
    out += ", \"question\": ";
    append_json_string(out, e.question);
    out += ", \"example\": ";
    append_json_string(out, e.example);
    out += ", \"positional\": ";
    append_json_string(out, e.positional);
    out += ", \"verdicts\": ";
    append_json(out, e.verdicts);
    out += ",\n    \"params\": " + fields_json(e.params, true);
    out += ",\n    \"summary\": " + fields_json(e.summary, false);
    out += ",\n    \"rows\": " + fields_json(e.row, false) + "}";
  }
  out += "\n  ],\n  \"run_options\": " + fields_json(field_specs<RunOptions>(), true) + ",\n  \"commands\": [";
  for (std::size_t i = 0; i < commands().size(); ++i) {
    out += fmt::format("{}\"{}\"", i ? ", " : "", commands()[i].name);
  }
  return out + "]\n}\n";
}

std::string help_text(const Experiment& experiment) {
  std::string positional;
  if (!experiment.positional.empty()) {
    positional = " [" + experiment.positional + "]";
    std::transform(positional.begin(), positional.end(), positional.begin(),
                   [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); });
  }
  std::string out = fmt::format("poslab {}: {}\n\nusage: poslab {}{} [flags]\nexample: {}\n\nparameters\n",
                                experiment.name, experiment.question, experiment.name, positional, experiment.example);
  append_flags(out, experiment.params);
  out += "\nrun options\n";
  append_flags(out, field_specs<RunOptions>());
  if (!experiment.verdicts.empty()) {
    out += fmt::format("\n--expect takes one of: {}\n", fmt::join(experiment.verdicts, ", "));
  }
  const auto columns = [&](std::string_view title, const std::vector<FieldSpec>& fields) {
    if (fields.empty()) return;
    out += fmt::format("\n{}\n", title);
    for (const FieldSpec& field : fields) {
      out += fmt::format("  {:<26}  {}{}\n", field.name, field.help,
                         field.unit.empty() ? "" : fmt::format(" ({})", field.unit));
    }
  };
  columns("summary", experiment.summary);
  columns("rows", experiment.row);
  return out;
}

std::string generate(std::string_view what) {
  if (what == "man") return man_page();
  if (what == "complete-bash") return bash_completion();
  if (what == "complete-zsh") return zsh_completion();
  return fish_completion();
}

}  // namespace poslab::cli
