#include "cli/execute.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "cli/arguments.h"
#include "cli/build_info.h"
#include "cli/config.h"
#include "cli/help.h"
#include "cli/ordered_points.h"
#include "cli/output.h"
#include "cli/parse_value.h"
#include "cli/progress.h"
#include "cli/resume.h"
#include "cli/sweep.h"
#include "cli/text.h"
#include "poslab/core/interrupt.h"
#include "poslab/core/threads.h"
#include "poslab/formats/npy.h"
#include "poslab/kernels/blas.h"
#include "poslab/kernels/isa.h"
#include "poslab/report/document.h"

namespace poslab::cli {
namespace {

using Clock = std::chrono::steady_clock;

// More numbers than this do not belong into one JSON text: about a gigabyte, and every reader holds it whole.
constexpr std::int64_t max_json_numbers = std::int64_t{1} << 26;

// What one invocation asks for, read once and merged: defaults < config < flags; the sweep's points come on top.
struct Invocation {
  RunOptions options;
  Record base;
  std::vector<std::string> axes;
  Format format = Format::text;
  Shard shard;
  int threads = 1;  // per point
};

RunOptions read_options(const Arguments& arguments) {
  const std::vector<FieldSpec> fields = field_specs<RunOptions>();
  Record record = to_record(RunOptions{});
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (const auto given = arguments.values.find(fields[i].name); given != arguments.values.end()) {
      record[i] = parse_value(fields[i], given->second, flag_of(fields[i].name));
    }
  }
  auto options = from_record<RunOptions>(record);
  options.sweep = arguments.sweeps;
  return options;
}

Format resolve_format(const RunOptions& options, bool is_sweep, const Streams& streams) {
  Format format = options.format;
  if (format == Format::auto_ && options.output) {
    const std::string_view path = *options.output;
    if (path.ends_with(".json")) format = Format::json;
    if (path.ends_with(".ndjson")) format = Format::ndjson;
    if (path.ends_with(".csv")) format = Format::csv;
    if (path.ends_with(".txt")) format = Format::text;
  }
  if (format == Format::auto_) {
    format = streams.out_is_terminal && !options.output ? Format::text : is_sweep ? Format::ndjson : Format::json;
  }
  return is_sweep && format == Format::json ? Format::ndjson : format;
}

void check_options(const Invocation& call, const Experiment& experiment) {
  const RunOptions& options = call.options;
  if (options.jobs < 1) throw UsageError(fmt::format("--jobs must be at least 1 but is {}", options.jobs));
  if (options.threads && *options.threads < 1) {
    throw UsageError(fmt::format("--threads must be at least 1 but is {}", *options.threads));
  }
  if (options.resume && (call.format != Format::ndjson || !options.output)) {
    throw UsageError("--resume continues an ndjson file: give --output FILE.ndjson or --format ndjson --output FILE");
  }
  if (options.expect) {
    if (experiment.verdicts.empty()) throw UsageError(fmt::format("--expect: {} gives no verdict", experiment.name));
    if (std::find(experiment.verdicts.begin(), experiment.verdicts.end(), *options.expect) ==
        experiment.verdicts.end()) {
      throw UsageError(fmt::format("--expect: '{}' is not one of {}{}", *options.expect,
                                   fmt::join(experiment.verdicts, ", "),
                                   suggestion(*options.expect, experiment.verdicts)));
    }
  }
  if (options.save_npy && !call.axes.empty()) {
    throw UsageError("--save-npy holds one tensor, so it does not go with a sweep");
  }
  if (options.save_npy && options.output && *options.save_npy == *options.output) {
    throw UsageError("--save-npy and --output name the same file");
  }
}

Invocation read_invocation(const Experiment& experiment, const Arguments& arguments, const Streams& streams) {
  Invocation call;
  call.options = read_options(arguments);
  for (const FieldSpec& field : experiment.params) call.base.push_back(field.fallback);
  if (call.options.config) {
    const Config config = read_config(*call.options.config, experiment);
    for (const auto& [index, value] : config.values) call.base[index] = value;
    call.axes = config.sweeps;
  }
  if (!call.options.sweep.empty()) call.axes = call.options.sweep;
  std::vector<std::string> all_axes;
  for (std::size_t i = 0; i < experiment.params.size(); ++i) {
    const FieldSpec& field = experiment.params[i];
    const auto given = arguments.values.find(field.name);
    if (given == arguments.values.end()) continue;
    if (field.kind == FieldKind::word && !field.list && given->second == "all") {
      all_axes.push_back(field.name + "=all");
    } else {
      call.base[i] = parse_value(field, given->second, flag_of(field.name));
    }
  }
  call.axes.insert(call.axes.begin(), all_axes.begin(), all_axes.end());
  call.format = resolve_format(call.options, !call.axes.empty(), streams);
  if (call.options.shard) {
    call.shard = Shard::parse(*call.options.shard);
    if (call.axes.empty()) throw UsageError("--shard shares out the points of a sweep: give --sweep too");
  }
  check_options(call, experiment);
  const int cores = available_cores();
  call.threads = call.options.threads
                     ? static_cast<int>(std::min<std::int64_t>(*call.options.threads, 1024))
                     : std::max<int>(1, cores / static_cast<int>(std::min<std::int64_t>(call.options.jobs, cores)));
  return call;
}

std::vector<std::pair<std::string, Value>> context_of(const Invocation& call,
                                                      std::chrono::system_clock::time_point started, double elapsed) {
  return {{"version", std::string(version())},
          {"revision", std::string(revision())},
          {"compiler", std::string(compiler())},
          {"isa", std::string(to_word(active_isa()))},
          {"blas", blas_name()},
          {"threads", std::int64_t{call.threads}},
          {"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(started)))},
          {"elapsed_s", elapsed}};
}

// `context` tells how to show the progress; its number of threads is the invocation's.
Document run_point(const Experiment& experiment, const Invocation& call, Record record, RunContext context) {
  const auto started = std::chrono::system_clock::now();
  const auto clock = Clock::now();
  Document document{experiment.name, experiment.params, experiment.summary, experiment.row, std::move(record), {}, {}};
  context.threads = call.threads;
  document.report = experiment.run(document.params, context);
  document.context = context_of(call, started, std::chrono::duration<double>(Clock::now() - clock).count());
  return document;
}

// Rows that --save-npy holds anyway may be left out of a JSON document; otherwise a huge one is refused.
void limit_json(Document& document, bool has_npy, const std::function<void(std::string)>& note) {
  const std::int64_t numbers = numbers_in_rows(document);
  if (numbers <= max_json_numbers) return;
  if (!has_npy) {
    throw std::invalid_argument(
        fmt::format("[{}] {} numbers are too many for a JSON document (at most {}): use --save-npy FILE.npy or "
                    "--format csv, which stream",
                    document.experiment, numbers, max_json_numbers));
  }
  note(fmt::format("the rows ({} numbers) stand in the .npy file only", numbers));
  document.report.rows = {};
}

void save_tensor(const Document& document, OutputFile& file, const std::function<void(double)>& progress) {
  const TensorSource& tensor = document.report.tensor;
  if (tensor.shape.empty()) {
    throw std::invalid_argument(
        fmt::format("[{}] these parameters give no tensor for --save-npy", document.experiment));
  }
  file.writer().write(npy_header(tensor.dtype, tensor.shape));
  std::size_t row_bytes = bytes_per_element(tensor.dtype);
  for (std::size_t d = 1; d < tensor.shape.size(); ++d) row_bytes *= static_cast<std::size_t>(tensor.shape[d]);
  const std::int64_t rows = tensor.shape.front();
  const auto block =
      static_cast<std::int64_t>(std::max<std::size_t>(1, (std::size_t{1} << 22) / std::max<std::size_t>(1, row_bytes)));
  std::vector<std::byte> bytes;
  for (std::int64_t first = 0; first < rows; first += block) {
    const std::int64_t count = std::min(block, rows - first);
    bytes.resize(static_cast<std::size_t>(count) * row_bytes);
    tensor.fill(first, count, bytes.data());
    file.writer().write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    progress(static_cast<double>(first + count) / static_cast<double>(rows));
  }
  file.commit();
}

bool as_expected(const RunOptions& options, const std::string& verdict) {
  return !options.expect || *options.expect == verdict;
}

std::string verdict_of(const Document& document) {
  for (std::size_t i = 0; i < document.summary_fields.size(); ++i) {
    if (document.summary_fields[i].name == "verdict") return std::get<std::string>(document.report.summary[i]);
  }
  return {};
}

std::vector<std::size_t> leading_params(const Experiment& experiment, const Invocation& call, const Sweep* sweep) {
  std::vector<std::size_t> leading;
  if (sweep) leading = sweep->swept_params();
  if (call.options.csv_params == CsvParams::all) {
    for (std::size_t i = 0; i < experiment.params.size(); ++i) {
      if (std::find(leading.begin(), leading.end(), i) == leading.end()) leading.push_back(i);
    }
  }
  return leading;
}

// The file of --output, or stdout.
class Target {
 public:
  Target(const Invocation& call, const Streams& streams) : stdout_(streams.out, "standard output") {
    if (call.options.output) {
      file_.emplace(*call.options.output, call.options.resume ? OutputFile::Start::keep : OutputFile::Start::fresh);
      if (call.options.resume && !file_->regular()) throw UsageError("--resume needs a regular file as --output");
    }
  }
  Writer& writer() { return file_ ? file_->writer() : stdout_; }
  TextSink sink() {
    return [this](std::string_view text) { writer().write(text); };
  }
  OutputFile* file() { return file_ ? &*file_ : nullptr; }
  void commit() {
    if (file_) {
      file_->commit();
    } else {
      stdout_.flush();
    }
  }

 private:
  Writer stdout_;
  std::optional<OutputFile> file_;
};

int run_single(const Experiment& experiment, const Invocation& call, const Streams& streams, const TextStyle& style,
               const std::function<void(std::string)>& note) {
  Target target(call, streams);
  std::optional<OutputFile> npy;
  if (call.options.save_npy) npy.emplace(*call.options.save_npy, OutputFile::Start::fresh);
  std::optional<Progress> bar;
  bar.emplace(streams.err_is_terminal && !call.options.quiet, streams.err, experiment.name);
  const auto progress = [&](double fraction) { bar->update(fraction); };
  RunContext context;
  context.progress = progress;
  context.status = [&](const std::string& words) { bar->status(words); };
  Document document = run_point(experiment, call, call.base, context);
  if (npy) save_tensor(document, *npy, progress);
  bar.reset();
  for (const std::string& line : document.report.notes) note(line);
  switch (call.format) {
    case Format::text:
      target.writer().write(text_document(document, experiment, style));
      break;
    case Format::csv: {
      CsvWriter(leading_params(experiment, call, nullptr), target.sink(), call.threads).write(document);
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

// One finished point: its line for ndjson, its document for the other formats.
struct Point {
  std::string line;
  std::optional<Document> document;
  std::string verdict;
  bool resumed = false;
};

int run_sweep(const Experiment& experiment, const Invocation& call, const Streams& streams, const TextStyle& style,
              const std::function<void(std::string)>& note) {
  const Sweep sweep(experiment, call.axes, call.base, note);
  std::vector<std::int64_t> points;
  for (std::int64_t p = 0; p < sweep.size(); ++p) {
    if (call.shard.owns(p)) points.push_back(p);
  }
  if (points.empty()) return 0;

  Target target(call, streams);
  std::optional<ResumedLines> resumed;
  if (call.options.resume) resumed.emplace(experiment, *target.file(), note);
  if (target.file()) target.file()->keep_partial();

  CsvWriter csv(leading_params(experiment, call, &sweep), target.sink(), call.threads);
  SummaryTable summaries(experiment, sweep.swept_params(), style);
  Progress bar(streams.err_is_terminal && !call.options.quiet, streams.err, experiment.name);
  std::mutex advancing;
  double advanced = 0;  // points done, running ones by their share
  const auto advance = [&](double by) {
    const std::lock_guard lock(advancing);
    advanced += by;
    bar.update(advanced / static_cast<double>(points.size()));
  };
  std::optional<InterruptScope> interrupts;  // between two points too
  if (experiment.stops_at_signal) interrupts.emplace();
  bool all_expected = true;
  std::vector<std::string> notes_told;

  const auto failure_at = [&](std::int64_t i, const std::exception& error) {
    const Record record = sweep.point(call.base, points[static_cast<std::size_t>(i)]);
    return std::runtime_error(fmt::format("at {}: {}", sweep.describe(record), error.what()));
  };
  // Where an experiment stops in good order at a signal, what it then returns is no point of a sweep, and no other
  // begins.
  const auto refuse_if_interrupted = [&] {
    if (!interrupt_requested()) return;
    const bool kept = target.file() && target.file()->regular() && call.format == Format::ndjson;
    throw std::runtime_error(
        kept ? fmt::format("interrupted; {} keeps the finished points, --resume goes on", target.file()->partial_path())
             : "interrupted");
  };
  const auto compute = [&](std::int64_t i) {
    Record record = sweep.point(call.base, points[static_cast<std::size_t>(i)]);
    Point point;
    if (const ResumedLines::Line* line = resumed ? resumed->find(record) : nullptr) {
      point.line = line->text;
      point.verdict = line->verdict;
      point.resumed = true;
      advance(1);
      return point;
    }
    refuse_if_interrupted();
    double share = 0;
    RunContext context;
    context.progress = [&](double now) { advance(now - std::exchange(share, now)); };
    context.status = [&](const std::string& words) { bar.status(words); };
    try {
      Document document = run_point(experiment, call, std::move(record), context);
      refuse_if_interrupted();
      advance(1 - share);
      point.verdict = verdict_of(document);
      if (call.format == Format::ndjson) {
        limit_json(document, false, note);
        write_json(document, JsonStyle::one_line, [&](std::string_view text) { point.line += text; });
        document.report.rows = {};
      }
      point.document = std::move(document);
    } catch (const std::exception& error) {
      refuse_if_interrupted();
      throw failure_at(i, error);
    }
    return point;
  };
  const auto emit = [&](std::int64_t i, const Point& point) {
    all_expected = all_expected && as_expected(call.options, point.verdict);
    if (point.document) {
      for (const std::string& line : point.document->report.notes) {
        if (std::find(notes_told.begin(), notes_told.end(), line) != notes_told.end()) continue;
        notes_told.push_back(line);
        note(line);
      }
    }
    if (call.format == Format::ndjson) {
      if (resumed) resumed->emitted(point.line, point.resumed);
      if (!point.resumed) {
        target.writer().write(point.line);
        target.writer().flush();
      }
    } else if (call.format == Format::csv) {
      try {
        csv.write(*point.document);
      } catch (const std::invalid_argument& error) {
        throw failure_at(i, error);
      }
      target.writer().flush();
    } else {
      summaries.add(*point.document);
    }
  };
  const auto finish = [&] {
    if (call.format == Format::text) target.writer().write(summaries.text());
    target.writer().flush();
  };
  try {
    ordered_points<Point>(static_cast<std::int64_t>(points.size()), call.options.jobs, compute, emit);
  } catch (const ClosedPipe&) {
    throw;
  } catch (...) {
    finish();
    throw;
  }
  finish();
  if (resumed) resumed->put_in_order(*target.file());
  target.commit();
  return all_expected ? 0 : 1;
}

}  // namespace

bool use_color(Color color, bool is_terminal) {
  if (color != Color::auto_) return color == Color::always;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return is_terminal && !(no_color && *no_color) && !(term && std::strcmp(term, "dumb") == 0);
}

std::vector<FieldSpec> all_flags(const Experiment& experiment) {
  std::vector<FieldSpec> fields = field_specs<RunOptions>();
  fields.insert(fields.end(), experiment.params.begin(), experiment.params.end());
  return fields;
}

int execute(const Experiment& experiment, std::span<const std::string> words, const Streams& streams) {
  const Arguments arguments = parse_arguments(all_flags(experiment), experiment.positional, words);
  if (arguments.help) {
    Writer out(streams.out, "standard output");
    out.write(help_text(experiment));
    out.flush();
    return 0;
  }
  const Invocation call = read_invocation(experiment, arguments, streams);
  const TextStyle style{streams.width, use_color(call.options.color, streams.out_is_terminal && !call.options.output)};
  const auto note = [&](std::string line) {
    if (call.options.quiet) return;
    Writer err(streams.err, "standard error");
    err.write(fmt::format("poslab: note: {}\n", line));
    err.flush();
  };
  return call.axes.empty() ? run_single(experiment, call, streams, style, note)
                           : run_sweep(experiment, call, streams, style, note);
}

void execute_embedded(const Experiment& experiment, std::string_view config, std::string_view source, Format format,
                      const Streams& streams, bool color, std::string& out) {
  Invocation call;
  for (const FieldSpec& field : experiment.params) call.base.push_back(field.fallback);
  const Config read = parse_config(config, source, experiment);
  for (const auto& [index, value] : read.values) call.base[index] = value;
  call.threads = available_cores();
  const Sweep sweep(experiment, read.sweeps, call.base, [](const std::string&) {});
  for (std::int64_t p = 0; p < sweep.size(); ++p) {
    const Document document = run_point(experiment, call, sweep.point(call.base, p), {});
    if (format == Format::text) {
      if (p > 0) out += '\n';
      out += text_document(document, experiment, {streams.width, color});
    } else {
      write_json(document, JsonStyle::one_line, [&](std::string_view text) { out += text; });
    }
  }
}

}  // namespace poslab::cli
