// How flags are written and explained, in --help and in the man page alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "poslab/core/fields.h"

namespace poslab::cli {

// "N", "X,X,...", "half|interleaved"; nothing for a boolean parameter.
std::string value_name(const FieldSpec& field);

// --flag, or --[no-]flag for a boolean parameter.
std::string flag_usage(const FieldSpec& field);

// The help with unit and default: "tokens of the text (tokens) [64]".
std::string explained(const FieldSpec& field);

// Fields under one heading, in order; those without one come first, with an empty title.
struct FieldGroup {
  std::string title;
  std::vector<const FieldSpec*> fields;
};
std::vector<FieldGroup> grouped(const std::vector<FieldSpec>& fields);

// Lines of at most `width` characters, all but the first indented; broken at blanks, else after '|' or ','.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width);

}  // namespace poslab::cli
