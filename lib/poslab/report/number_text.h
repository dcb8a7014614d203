// Doubles as text. Half the time of writing a long CSV table passes here.
#pragma once

#include <cstddef>

namespace poslab {

inline constexpr std::size_t longest_number = 24;  // -2.2250738585072014e-308

// The shortest digits that read back to the same double, as fmt's "{}" arranges them (100000, 1e+16, 0.001, 1e-05) but
// for -0.0, which keeps its sign. `value` must be finite. Writes at most longest_number characters, returns their end.
char* write_number(char* to, double value);

}  // namespace poslab
