#include "cli/params.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/parse_value.h"

namespace poslab::cli {

std::size_t param_index(const Experiment& experiment, std::string_view name, std::string_view where, const Note& note) {
  std::vector<std::string> names;
  for (const FieldSpec& field : experiment.params) {
    if (field.name == name) return names.size();
    if (!name.empty() && field.old_name == name) {
      note(fmt::format("{}: {}", where, rename_note(name, field.name)));
      return names.size();
    }
    names.push_back(field.name);
  }
  throw UsageError(
      fmt::format("{}: {} has no parameter '{}'{}", where, experiment.name, name, suggestion(name, names)));
}

std::string rename_note(std::string_view old_name, std::string_view new_name) {
  return fmt::format("{} is called {} now; the next version no longer takes the old name", old_name, new_name);
}

Record default_record(const Experiment& experiment) {
  Record record;
  for (const FieldSpec& field : experiment.params) record.push_back(field.fallback);
  return record;
}

}  // namespace poslab::cli
