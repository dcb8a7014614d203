#include "poslab/methods/positions.h"

#include <fmt/format.h>

#include <stdexcept>

namespace poslab {

std::vector<std::int64_t> positions_from_mask(std::span<const std::int64_t> mask) {
  std::vector<std::int64_t> positions;
  std::int64_t next = 0;
  for (std::int64_t kept : mask) {
    if (kept != 0 && kept != 1) {
      throw std::invalid_argument(
          fmt::format("[positions_from_mask] a mask holds 0 (padding) and 1 (token) but got {}.", kept));
    }
    positions.push_back(kept == 1 ? next++ : 0);
  }
  return positions;
}

}  // namespace poslab
