#include "cli/list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/invocation.h"
#include "cli/list_words.h"
#include "cli/output.h"
#include "cli/parse_value.h"
#include "experiments/experiment.h"
#include "poslab/report/document.h"

namespace poslab::cli {
namespace {

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

struct ListOptions {
  std::string what;
  Format format = Format::text;
  static void fields(auto& self, auto&& field) {
    field("what", self.what, "methods, models or scalings; empty: the experiments");
    field("format", self.format, "text or json");
  }
};

}  // namespace

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

int run_list(std::span<const std::string> words, const Streams& streams) {
  const Arguments arguments = parse_arguments(field_specs<ListOptions>(), "what", words);
  if (arguments.help) {
    print(streams, fmt::format("usage: poslab list [{}] [--format text|json]\n", fmt::join(listed_kinds(), "|")));
    return 0;
  }
  const auto options = read_options<ListOptions>(arguments);
  const Format format = options.format;
  if (format == Format::csv || format == Format::ndjson) throw UsageError("list: --format is text or json");
  if (!options.what.empty()) {
    const std::vector<std::string> known(listed_kinds().begin(), listed_kinds().end());
    if (std::find(known.begin(), known.end(), options.what) == known.end()) {
      throw UsageError(fmt::format("list takes one of {}{}", fmt::join(known, ", "), suggestion(options.what, known)));
    }
    print(streams, format == Format::json ? word_list_json(options.what) : word_list_text(options.what));
    return 0;
  }
  print(streams, format == Format::json ? list_json() : list_text());
  return 0;
}

}  // namespace poslab::cli
