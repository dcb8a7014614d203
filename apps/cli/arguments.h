// A subcommand's words -> the text of each flag. CLI11 stays in arguments.cpp.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "poslab/core/fields.h"

namespace poslab::cli {

struct Arguments {
  std::map<std::string, std::string, std::less<>> values;  // field name -> text; booleans are "true" or "false"
  std::vector<std::string> sweeps;
  std::vector<std::string> notes;  // flags that were renamed
  bool help = false;
};

// Only the given fields' flags are known, so that start-up does not grow with the number of subcommands.
// A bare word sets the field named `positional` (empty: bare words are errors).
Arguments parse_arguments(std::span<const FieldSpec> fields, std::string_view positional,
                          std::span<const std::string> words);

}  // namespace poslab::cli
