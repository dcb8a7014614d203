// How flags are written and explained, in --help and in the man page alike.
#pragma once

#include <string>

#include "poslab/core/fields.h"

namespace poslab::cli {

// "N", "X,X,...", "half|interleaved"; nothing for a boolean parameter.
std::string value_name(const FieldSpec& field);

// --flag, or --[no-]flag for a boolean parameter.
std::string flag_usage(const FieldSpec& field);

// The help with unit and default: "tokens of the text (tokens) [64]".
std::string explained(const FieldSpec& field);

}  // namespace poslab::cli
