#include "poslab/core/require.h"

#include <fmt/format.h>

#include <stdexcept>

namespace poslab {

void RequireWithin::operator()(std::string_view name, std::int64_t value, std::int64_t least, std::int64_t most) const {
  if (value >= least && value <= most) return;
  throw std::invalid_argument(fmt::format("[{}] {} must be {} .. {} but got {}.", where, name, least, most, value));
}

}  // namespace poslab
