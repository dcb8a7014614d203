// What the positions that an engine used have to do with those it was given.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace poslab {

struct PositionGrid {
  std::int64_t batches = 1, length = 0, heads = 1;
  std::span<const double> given;  // [batches, length]
  std::span<const double> used;   // [batches, length, heads]
};

struct PositionPattern {
  std::string mistake;
  std::string detail;
};

// Every pattern that gives all used positions, the plainest first; none where no known one does. Rows whose used
// position is the given one take part: a pattern must leave them alone.
std::vector<PositionPattern> position_patterns(const PositionGrid& grid);

}  // namespace poslab
