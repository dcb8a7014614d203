// What one invocation asks for, read once and merged: defaults < config < flags; a sweep's points come on top.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/parse_value.h"
#include "cli/run_options.h"
#include "cli/shard.h"
#include "cli/streams.h"
#include "experiments/experiment.h"

namespace poslab::cli {

struct Invocation {
  RunOptions options;
  Record base;                    // of parameters
  std::vector<std::string> axes;  // "name=points"
  Format format = Format::text;   // never auto_
  Shard shard;
  int threads = 1;                 // per point
  std::vector<std::string> notes;  // for stderr
};

// Throws UsageError for options that do not go together or do not fit the experiment, and as parse_value does.
Invocation read_invocation(const Experiment& experiment, const Arguments& arguments, const Streams& streams);

// Flags of an experiment: the run options, then its parameters.
std::vector<FieldSpec> all_flags(const Experiment& experiment);

// The struct of options whose flags these are, defaults filled in.
template <class Options>
Options read_options(const Arguments& arguments) {
  const std::vector<FieldSpec> fields = field_specs<Options>();
  Record record = to_record(Options{});
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (const auto given = arguments.values.find(fields[i].name); given != arguments.values.end()) {
      record[i] = parse_value(fields[i], given->second, flag_of(fields[i].name));
    }
  }
  return from_record<Options>(record);
}

}  // namespace poslab::cli
