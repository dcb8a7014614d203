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

constexpr std::size_t width = 100, column = 30;

// "  left    text": the text in a column of its own, both wrapped.
void append_entry(std::string& out, const std::string& left, const std::string& text) {
  const std::string shown = wrapped(left, 6, width - 6);
  const std::string pad(column, ' ');
  if (shown.size() <= column - 4) {
    out += fmt::format("  {:<{}}  {}\n", shown, column - 4, wrapped(text, column, width - column));
  } else {
    out += fmt::format("  {}\n{}{}\n", shown, pad, wrapped(text, column, width - column));
  }
}

void append_flags(std::string& out, std::string_view title, const std::vector<FieldSpec>& fields) {
  for (const FieldGroup& group : grouped(fields)) {
    out += fmt::format("\n{}\n", group.title.empty() ? title : group.title);
    for (const FieldSpec* field : group.fields) {
      std::string left = flag_usage(*field);
      if (field->kind != FieldKind::boolean) left += " " + value_name(*field);
      append_entry(out, left, explained(*field));
    }
  }
}

}  // namespace

std::string overview() {
  std::string out =
      "poslab: a laboratory for the positional encodings of transformers\n\n"
      "usage: poslab SUBCOMMAND [flags]      poslab SUBCOMMAND --help\n\n";
  return out + list_text() + "\nposlab --version prints the version.\n";
}

std::string help_text(const Experiment& experiment) {
  std::string positional;
  if (!experiment.positional.empty()) {
    positional = " [" + experiment.positional + "]";
    std::transform(positional.begin(), positional.end(), positional.begin(),
                   [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); });
  }
  std::string out = fmt::format("poslab {}: {}\n\nusage: poslab {}{} [flags]\nexample: {}\n", experiment.name,
                                experiment.question, experiment.name, positional, experiment.example);
  append_flags(out, "parameters", experiment.params);
  append_flags(out, "run options", field_specs<RunOptions>());
  if (!experiment.verdicts.empty()) {
    const std::string line = fmt::format("--expect takes one of: {}", fmt::join(experiment.verdicts, ", "));
    out += fmt::format("\n{}\n", wrapped(line, 2, width - 2));
  }
  const auto columns = [&](std::string_view title, const std::vector<FieldSpec>& fields) {
    if (fields.empty()) return;
    out += fmt::format("\n{}\n", title);
    for (const FieldSpec& field : fields) {
      const std::string unit = field.unit.empty() ? "" : fmt::format(" ({})", field.unit);
      append_entry(out, field.name, field.help + unit);
    }
  };
  columns("summary", experiment.summary);
  columns("rows", experiment.row);
  return out;
}

}  // namespace poslab::cli
