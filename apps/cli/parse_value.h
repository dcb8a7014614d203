// Text from a flag or a sweep point -> a field's value, strictly (docs/contract.md, "Parameters").
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/core/fields.h"
#include "poslab/core/suggestion.h"

namespace poslab::cli {

// A mistake in the command line or a config: one line for stderr, exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// `where` names the source in errors: "--rope-theta", "sweep point".
Value parse_value(const FieldSpec& spec, std::string_view text, std::string_view where);

// "type" as shown by help and list: "integer", "list of real", "half|interleaved", ...
std::string type_name(const FieldSpec& spec);

// Field name <-> flag: rope_theta <-> --rope-theta.
std::string flag_of(std::string_view field_name);

}  // namespace poslab::cli
