#include "cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "cli/flag_text.h"
#include "cli/list.h"
#include "cli/run_options.h"

namespace poslab::cli {
namespace {

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

}  // namespace

std::string overview() {
  std::string out =
      "poslab: a laboratory for the positional encodings of transformers\n\n"
      "usage: poslab SUBCOMMAND [flags]      poslab SUBCOMMAND --help\n\n";
  return out + list_text() + "\nposlab --version tells what this binary is.\n";
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

}  // namespace poslab::cli
