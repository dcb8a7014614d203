#include "cli/params.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/parse_value.h"

namespace poslab::cli {

std::size_t param_index(const Experiment& experiment, std::string_view name, std::string_view where) {
  std::vector<std::string> names;
  for (const FieldSpec& field : experiment.params) {
    if (field.name == name) return names.size();
    names.push_back(field.name);
  }
  throw UsageError(
      fmt::format("{}: {} has no parameter '{}'{}", where, experiment.name, name, suggestion(name, names)));
}

Record default_record(const Experiment& experiment) {
  Record record;
  for (const FieldSpec& field : experiment.params) record.push_back(field.fallback);
  return record;
}

}  // namespace poslab::cli
