#include "cli/man_page.h"

#include <fmt/format.h>

#include "cli/build_info.h"
#include "cli/commands.h"
#include "cli/flag_text.h"
#include "cli/parse_value.h"
#include "cli/run_options.h"
#include "experiments/experiment.h"

namespace poslab::cli {
namespace {

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

void append_man_flag(std::string& out, const FieldSpec& field) {
  const std::string flag = flag_of(field.name);
  if (field.kind == FieldKind::boolean) {
    out += fmt::format(".TP\n.BR {} \", \" {}\n", roff(flag), roff("--no-" + flag.substr(2)));
  } else {
    out += fmt::format(".TP\n.BI {} \" {}\"\n", roff(flag), roff(value_name(field)));
  }
  out += roff(explained(field)) + "\n";
}

void append_man_flags(std::string& out, const std::vector<FieldSpec>& fields) {
  for (const FieldGroup& group : grouped(fields)) {
    if (!group.title.empty()) out += fmt::format(".PP\n.I {}\n", roff(group.title));
    for (const FieldSpec* field : group.fields) append_man_flag(out, *field);
  }
}

}  // namespace

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

}  // namespace poslab::cli
