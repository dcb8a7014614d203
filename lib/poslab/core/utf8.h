// Whether bytes are valid UTF-8: no overlong form, no surrogate, nothing past U+10FFFF.
#pragma once

#include <cstddef>
#include <string_view>

namespace poslab {

struct Utf8Character {
  std::size_t length = 0;  // bytes, 1 to 4; 0 where they are no valid UTF-8, and at the end of the text
  char32_t code = 0;
};

// The first character of `text`.
Utf8Character first_utf8(std::string_view text);

bool is_utf8(std::string_view text);

}  // namespace poslab
