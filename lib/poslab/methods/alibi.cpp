#include "poslab/methods/alibi.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <stdexcept>

namespace poslab {

std::vector<double> alibi_slopes(std::int64_t n_heads, double alibi_bias_max) {
  if (n_heads < 1 || n_heads > 1'000'000) {
    throw std::invalid_argument(fmt::format("[alibi_slopes] n_heads must be 1 .. 1000000 but got {}.", n_heads));
  }
  if (!(alibi_bias_max > 0) || !std::isfinite(alibi_bias_max)) {
    throw std::invalid_argument(
        fmt::format("[alibi_slopes] alibi_bias_max must be finite and above 0 but got {}.", alibi_bias_max));
  }
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n_heads)));
  std::vector<double> slopes;
  slopes.reserve(static_cast<std::size_t>(n_heads));
  for (std::int64_t h = 0; h < n_heads; ++h) {
    const std::int64_t step = h < power ? 2 * (h + 1) : 2 * (h - power) + 1;
    slopes.push_back(std::exp2(-alibi_bias_max * static_cast<double>(step) / static_cast<double>(2 * power)));
  }
  return slopes;
}

double alibi_bias(double slope, std::int64_t query_position, std::int64_t key_position) {
  // 0 - x, so that a key at the query's own place gets 0 and not -0.
  return 0.0 - slope * std::abs(static_cast<double>(query_position) - static_cast<double>(key_position));
}

}  // namespace poslab
