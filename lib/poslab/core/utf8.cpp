#include "poslab/core/utf8.h"

#include <utf8proc.h>

namespace poslab {

Utf8Character first_utf8(std::string_view text) {
  utf8proc_int32_t code = 0;
  const utf8proc_ssize_t length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                                   static_cast<utf8proc_ssize_t>(text.size()), &code);
  if (length <= 0) return {};
  return {static_cast<std::size_t>(length), static_cast<char32_t>(code)};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = first_utf8(text).length;
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace poslab
