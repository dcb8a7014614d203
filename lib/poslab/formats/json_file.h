// Strict reading of JSON that somebody else wrote: bounded in size and depth, no duplicate keys.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace poslab {

inline constexpr std::int64_t json_max_bytes = 64 * 1024 * 1024;

// `source` names the text in errors (a path, "preset 'gpt-2'"). A scalar has depth 0, [] and {} depth 1; deeper than
// max_depth is refused while parsing, since deep nesting would overflow the stack of whoever walks the result.
// Integers beyond 64 bits arrive as reals, so an integer field must ask for is_number_integer().
// Throws std::invalid_argument "[read_json] <source>: ..." for what is not JSON (with line and column), invalid UTF-8,
// numbers that overflow a double, duplicate keys (named), too deep, more than json_max_bytes.
nlohmann::json parse_json(std::string_view text, std::string_view source, int max_depth = 16);

// The same from a file, a pipe or /dev/stdin. Also refuses a missing or unreadable path and a directory.
nlohmann::json read_json_file(const std::string& path, int max_depth = 16);

}  // namespace poslab
