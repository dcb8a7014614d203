// The one way poslab reads a number from text, whatever the locale.
#pragma once

#include <cstdint>
#include <string_view>

namespace poslab {

// Decimal digits with an optional minus: `010` is 10; `+5`, `1e3`, `0x10` and what overflows are refused.
// `what` names the number in the error, "[rope-score] distances" for instance; throws std::invalid_argument.
std::int64_t parse_integer(std::string_view text, std::string_view what);

// Decimal or exponent form; nan, inf and what overflows are refused.
double parse_real(std::string_view text, std::string_view what);

}  // namespace poslab
