#include "cli/tour.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/arguments.h"
#include "cli/config.h"
#include "cli/execute.h"
#include "cli/invocation.h"
#include "cli/output.h"
#include "cli/parse_value.h"
#include "poslab_lesson.h"

namespace poslab::cli {
namespace {

struct TourOptions {
  Format format = Format::auto_;
  std::optional<FilePath> output;
  Color color = Color::auto_;
  bool quiet = false;
  bool study = false;

  static void fields(auto& self, auto&& field) {
    field("format", self.format, "text for a reader, json for one document per line");
    field("output", self.output, "write to this file instead of stdout");
    field("color", self.color, "colours in text output");
    field("quiet", self.quiet, "nothing on stderr");
    field("study", self.study, "also run the last step, which trains models for minutes");
  }
};

// "1-order-blindness.json" -> "1. Order blindness"
std::string heading(std::string_view file) {
  const std::string_view name = file.substr(0, file.rfind('.'));
  const std::size_t dash = name.find('-');
  std::string title(name.substr(dash + 1));
  std::replace(title.begin(), title.end(), '-', ' ');
  title.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(title.front())));
  return fmt::format("{}. {}", name.substr(0, dash), title);
}

// A config that sweeps is a study of minutes; the others are experiments of a moment.
bool is_study(std::string_view config, std::string_view name, const Experiment& experiment) {
  return !parse_config(config, name, experiment).sweeps.empty();
}

}  // namespace

int run_tour(std::span<const std::string> words, const Streams& streams) {
  const Arguments arguments = parse_arguments(field_specs<TourOptions>(), {}, words);
  if (arguments.help) {
    print(streams,
          "poslab tour: the lesson, experiment by experiment\n\n"
          "usage: poslab tour [--study] [--format text|json] [--output FILE] [--color auto|always|never]\n"
          "--study also runs the last step, a study that trains models for minutes\n"
          "example: poslab tour\n");
    return 0;
  }
  const auto options = read_options<TourOptions>(arguments);
  if (options.format == Format::csv)
    throw UsageError("tour: its experiments have different columns; use --format json");
  const bool to_file = options.output.has_value();
  const bool reader =
      options.format == Format::auto_ ? !to_file || options.output->ends_with(".txt") : options.format == Format::text;
  const bool color = use_color(options.color, streams.out_is_terminal && !to_file);

  std::optional<OutputFile> file;
  if (to_file) file.emplace(*options.output, OutputFile::Start::fresh);
  Writer standard(streams.out, "standard output");
  Writer& out = file ? file->writer() : standard;
  bool first = true;
  for (const auto& [name, config] : lesson_configs()) {
    const Experiment* experiment = find_experiment(config_experiment(config, name));
    if (!experiment) throw std::logic_error(fmt::format("[tour] {} names no experiment", name));
    std::string text;
    if (reader) {
      const std::string title = heading(name);
      if (!first) text += '\n';
      text += fmt::format("{}\n{}\n\n", title, std::string(title.size(), '='));
    }
    first = false;
    if (options.study || !is_study(config, name, *experiment)) {
      execute_embedded(*experiment, config, name, reader ? Format::text : Format::json, streams, color, text);
    } else if (reader) {
      text += fmt::format("{}\nIt trains models for minutes: poslab tour --study runs it too.\n", experiment->question);
    }
    out.write(text);
    out.flush();
  }
  if (file) file->commit();
  return 0;
}

}  // namespace poslab::cli
