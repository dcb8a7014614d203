#include "poslab/core/printable.h"

namespace poslab {

std::string printable(std::string_view text, std::size_t longest) {
  std::string out;
  for (char c : text.substr(0, longest)) out += c >= 0x20 && c < 0x7f ? c : '?';
  if (text.size() > longest) out += "...";
  return out;
}

}  // namespace poslab
