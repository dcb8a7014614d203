// Positions of the tokens in a padded batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace poslab {

// The position of each token among those that the mask keeps: cumsum(mask) - 1, and 0 on padding, as biases by distance
// and every decoder with learned positions need for left-padded text. mask holds 0 (padding) and 1 (token); throws
// std::invalid_argument "[positions_from_mask] ..." on anything else.
std::vector<std::int64_t> positions_from_mask(std::span<const std::int64_t> mask);

}  // namespace poslab
