#include "poslab/rope/rope_variants.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace poslab {
double rerope_distance(double distance, double window, double leak_factor) {
  if (!(distance >= 0) || !(window >= 0) || (leak_factor != 0 && !(leak_factor >= 1))) {
    throw std::invalid_argument(
        fmt::format("[rerope_distance] distance and window must be at least 0 and leak_factor 0 or at least 1 but they "
                    "are {}, {}, {}.",
                    distance, window, leak_factor));
  }
  if (distance <= window) return distance;
  return leak_factor == 0 ? window : window + (distance - window) / leak_factor;
}

std::int64_t self_extend_distance(std::int64_t query_position, std::int64_t key_position, std::int64_t window,
                                  std::int64_t group) {
  if (key_position < 0 || key_position > query_position || window < 0 || group < 1) {
    throw std::invalid_argument(fmt::format(
        "[self_extend_distance] needs 0 <= key <= query, window >= 0 and group >= 1 but they are {}, {}, {} "
        "and {}.",
        key_position, query_position, window, group));
  }
  const std::int64_t distance = query_position - key_position;
  if (distance < window) return distance;
  return query_position / group + window - window / group - key_position / group;
}

}  // namespace poslab
