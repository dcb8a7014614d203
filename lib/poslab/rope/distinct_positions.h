// How many positions RoPE's stored cos and sin still tell apart.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "poslab/rope/numeric_profile.h"

namespace poslab {

struct DistinctPositions {
  std::int64_t count = 0;                       // different rows of stored cos and sin among 0 .. seq_len - 1
  std::optional<std::int64_t> first_collision;  // the first p whose row equals that of p + 1
};

// Compares whole rows, all pairs; two rows count as equal when their 64-bit hashes over all pairs are. Takes about 20
// bytes per position. `progress` is told 0 .. 1 from one thread at a time.
// Throws std::invalid_argument "[distinct_positions] ..." for a seq_len outside 1 .. max_distinct_positions.
DistinctPositions distinct_positions(
    const ProfiledRope& rope, std::int64_t seq_len, int threads,
    const std::function<void(double)>& progress = [](double) {});

constexpr std::int64_t max_distinct_positions = std::int64_t{1} << 27;

}  // namespace poslab
