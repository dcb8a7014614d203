#include "poslab/methods/relative_bias.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace poslab {

std::int64_t t5_bucket(std::int64_t relative_position, bool bidirectional, std::int64_t num_buckets,
                       std::int64_t max_distance) {
  const std::int64_t per_direction = bidirectional ? num_buckets / 2 : num_buckets;
  const std::int64_t near = per_direction / 2;
  if (near < 1 || num_buckets > 1'000'000) {
    throw std::invalid_argument(
        fmt::format("[t5_bucket] num_buckets must be {} .. 1000000 but got {}.", bidirectional ? 4 : 2, num_buckets));
  }
  if (max_distance <= near) {
    throw std::invalid_argument(fmt::format(
        "[t5_bucket] max_distance must be above {} (half of a direction's buckets) but got {}.", near, max_distance));
  }
  const bool after = relative_position > 0;
  const std::int64_t offset = bidirectional && after ? per_direction : 0;
  if (!bidirectional && after) return 0;
  // Unsigned, since -INT64_MIN does not fit.
  const auto bits = static_cast<std::uint64_t>(relative_position);
  const std::uint64_t distance = after ? bits : 0 - bits;
  if (distance < static_cast<std::uint64_t>(near)) return offset + static_cast<std::int64_t>(distance);
  const auto span = static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(near)));
  const float far = std::log(static_cast<float>(distance) / static_cast<float>(near)) / span *
                    static_cast<float>(per_direction - near);
  return offset + std::min(near + static_cast<std::int64_t>(far), per_direction - 1);
}

RelativeBiasHook t5_hook(std::span<const double> table, std::int64_t n_heads, bool bidirectional,
                         std::int64_t num_buckets, std::int64_t max_distance) {
  if (static_cast<std::int64_t>(table.size()) != num_buckets * n_heads) {
    throw std::invalid_argument(fmt::format("[t5_hook] a table of {} numbers is not {} buckets x {} heads.",
                                            table.size(), num_buckets, n_heads));
  }
  RelativeBiasHook hook{-max_distance, {}};
  for (std::int64_t head = 0; head < n_heads; ++head) {
    for (std::int64_t relative = -max_distance; relative <= max_distance; ++relative) {
      const std::int64_t bucket = t5_bucket(relative, bidirectional, num_buckets, max_distance);
      hook.bias.push_back(table[static_cast<std::size_t>(bucket * n_heads + head)]);
    }
  }
  return hook;
}

}  // namespace poslab
