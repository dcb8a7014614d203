#include "cli/run_single.h"

#include <optional>

#include "cli/progress.h"

namespace poslab::cli {

int run_single(const Experiment& experiment, const Invocation& call, const Streams& streams, const TextStyle& style,
               const Note& note) {
  Target target(call, streams.out);
  std::optional<OutputFile> npy;
  if (call.options.save_npy) npy.emplace(*call.options.save_npy, OutputFile::Start::fresh);
  std::optional<Progress> bar;
  bar.emplace(streams.err_is_terminal && !call.options.quiet, streams.err, experiment.name);
  const auto progress = [&](double fraction) { bar->update(fraction); };
  RunContext context;
  context.threads = call.threads;
  context.progress = progress;
  context.status = [&](const std::string& words) { bar->status(words); };
  Document document = run_point(experiment, call.base, context);
  if (npy) save_tensor(document, *npy, progress);
  bar.reset();
  for (const std::string& line : document.report.notes) note(line);
  switch (call.format) {
    case Format::text:
      target.writer().write(text_document(document, experiment, style));
      break;
    case Format::csv: {
      CsvWriter(csv_params(experiment, call, {}), target.sink(), call.threads).write(document);
      break;
    }
    default:
      limit_json(document, npy.has_value(), note);
      write_json(document, call.format == Format::json ? JsonStyle::pretty : JsonStyle::one_line, target.sink(),
                 call.threads);
  }
  target.commit();
  return as_expected(call.options, verdict_of(document)) ? 0 : 1;
}

}  // namespace poslab::cli
