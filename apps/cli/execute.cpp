#include "cli/execute.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "cli/config.h"
#include "cli/invocation.h"
#include "cli/output.h"
#include "cli/params.h"
#include "cli/run_single.h"
#include "cli/run_sweep.h"
#include "cli/sweep.h"
#include "cli/text.h"
#include "poslab/core/threads.h"

namespace poslab::cli {

bool use_color(Color color, bool is_terminal) {
  if (color != Color::auto_) return color == Color::always;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return is_terminal && !(no_color && *no_color) && !(term && std::strcmp(term, "dumb") == 0);
}

int execute(const Experiment& experiment, const Arguments& arguments, const Streams& streams) {
  const Invocation call = read_invocation(experiment, arguments, streams);
  const TextStyle style{streams.width, use_color(call.options.color, streams.out_is_terminal && !call.options.output)};
  const auto note = [&](std::string line) {
    if (call.options.quiet) return;
    Writer err(streams.err, "standard error");
    err.write(fmt::format("poslab: note: {}\n", line));
    err.flush();
  };
  for (const std::string& line : call.notes) note(line);
  return call.axes.empty() ? run_single(experiment, call, streams, style, note)
                           : run_sweep(experiment, call, streams, style, note);
}

void execute_embedded(const Experiment& experiment, std::string_view config, std::string_view source, Format format,
                      const Streams& streams, bool color, std::string& out) {
  Record base = default_record(experiment);
  const Config read = parse_config(config, source, experiment);
  for (const auto& [index, value] : read.values) base[index] = value;
  RunContext context;
  context.threads = available_cores();
  const Sweep sweep(experiment, read.sweeps, base, [](const std::string&) {});
  for (std::int64_t p = 0; p < sweep.size(); ++p) {
    const Document document = run_point(experiment, sweep.point(base, p), context);
    if (format == Format::text) {
      if (p > 0) out += '\n';
      out += text_document(document, experiment, {streams.width, color});
    } else {
      write_json(document, JsonStyle::one_line, [&](std::string_view text) { out += text; });
    }
  }
}

}  // namespace poslab::cli
