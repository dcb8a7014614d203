// Text of somebody else's file inside a one-line message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace poslab {

// Printable ASCII, other bytes as '?'; cut after `longest` bytes with "...".
std::string printable(std::string_view text, std::size_t longest = 80);

}  // namespace poslab
