// The check of a size that a user sets.
#pragma once

#include <cstdint>
#include <string_view>

namespace poslab {

// constexpr RequireWithin require_within{"train"};
// require_within("steps", steps, 1, 1000) throws std::invalid_argument "[train] steps must be 1 .. 1000 but got 0.".
struct RequireWithin {
  std::string_view where;
  void operator()(std::string_view name, std::int64_t value, std::int64_t least, std::int64_t most) const;
};

}  // namespace poslab
