// Other distances than the true ones, for rotations at attention time.
#pragma once

#include <cstdint>
#include <vector>

namespace poslab {

// ReRoPE (Su 2023, kexue.fm/archives/9708): the distance that the rotation sees. Up to `window` tokens the true one,
// beyond it `window`; Leaky ReRoPE goes on from there in steps of 1 / leak_factor. leak_factor 0 = ReRoPE itself.
// Throws std::invalid_argument "[rerope_distance] ..." for a negative window or distance, or a leak_factor between 0
// and 1.
double rerope_distance(double distance, double window, double leak_factor = 0);

// Self-Extend (Jin et al. 2024, arXiv:2401.01325, section 3): neighbours closer than `window` keep their distance;
// further keys get floor(q / group) + window - floor(window / group) - floor(k / group). With training on L positions
// it reaches (L - window) group + window tokens. Throws std::invalid_argument "[self_extend_distance] ..." for a key
// after its query, a group below 1, a window below 0.
std::int64_t self_extend_distance(std::int64_t query_position, std::int64_t key_position, std::int64_t window,
                                  std::int64_t group);

}  // namespace poslab
