#include "cli/invocation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/config.h"
#include "cli/params.h"
#include "poslab/core/threads.h"

namespace poslab::cli {
namespace {

Format resolve_format(const RunOptions& options, bool is_sweep, const Streams& streams) {
  Format format = options.format;
  if (format == Format::auto_ && options.output) {
    const std::string_view path = *options.output;
    for (const FormatRow& row : format_rows) {
      if (!row.ending.empty() && path.ends_with(row.ending)) format = row.format;
    }
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

}  // namespace

Invocation read_invocation(const Experiment& experiment, const Arguments& arguments, const Streams& streams) {
  Invocation call;
  call.options = read_options<RunOptions>(arguments);
  call.options.sweep = arguments.sweeps;
  call.base = default_record(experiment);
  call.notes = arguments.notes;
  if (call.options.config) {
    const Config config =
        read_config(*call.options.config, experiment, [&](std::string line) { call.notes.push_back(std::move(line)); });
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

std::vector<FieldSpec> all_flags(const Experiment& experiment) {
  std::vector<FieldSpec> fields = field_specs<RunOptions>();
  fields.insert(fields.end(), experiment.params.begin(), experiment.params.end());
  return fields;
}

}  // namespace poslab::cli
