#include "poslab/core/require.h"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace poslab;

TEST_CASE("a size within its ends passes, one beside them is named with both") {
  constexpr RequireWithin require_within{"train"};
  CHECK_NOTHROW(require_within("steps", 1, 1, 5));
  CHECK_NOTHROW(require_within("steps", 5, 1, 5));
  CHECK_THROWS_WITH_AS(require_within("steps", 0, 1, 5), "[train] steps must be 1 .. 5 but got 0.",
                       std::invalid_argument);
  CHECK_THROWS_AS(require_within("steps", 6, 1, 5), std::invalid_argument);
}
