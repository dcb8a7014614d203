// Rotary encodings beside the scalings that models deploy: a decay, and other distances.
#pragma once

#include <cstdint>
#include <vector>

namespace poslab {

// xPos (Sun et al. 2022, arXiv:2212.10554; torchscale): queries at n are scaled by zeta^(n / scale_base), keys at m by
// zeta^(-m / scale_base), so pair i of a score carries zeta_i^((n - m) / scale_base) beside its rotation.
//
//   zeta_i = (2i / dim + gamma) / (1 + gamma), i = 0 .. dim/2 - 1; gamma = 0.4, scale_base = 512 tokens in the paper
//   returns [rotary_dim / 2] the factors at that distance; 1 at distance 0, above 1 for keys in the future
//
// Throws std::invalid_argument "[xpos_decay] ..." for an odd rotary_dim, or a gamma or scale_base not above 0.
std::vector<double> xpos_decay(std::int64_t rotary_dim, double distance, double gamma = 0.4, double scale_base = 512);

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
