// xPos: RoPE whose queries grow with the position as its keys shrink, so that scores decay with distance (Sun et al.
// 2022, arXiv:2212.10554; torchscale).
#pragma once

#include <cstdint>
#include <vector>

namespace poslab {

class Method;
const Method& xpos_method();

struct XposParams {
  double xpos_gamma = 0.4, xpos_scale_base = 512;

  static void fields(auto& self, auto&& field) {
    field("xpos_gamma", self.xpos_gamma, "xpos: the smaller, the faster the fast pairs decay");
    field("xpos_scale_base", self.xpos_scale_base, "xpos: distance over which a pair decays by its zeta", "tokens");
  }
};

// Queries at n are scaled by zeta^(n / scale_base), keys at m by zeta^(-m / scale_base), so pair i of a score carries
// zeta_i^((n - m) / scale_base) beside its rotation.
//
//   zeta_i = (2i / dim + gamma) / (1 + gamma), i = 0 .. dim/2 - 1; gamma = 0.4, scale_base = 512 tokens in the paper
//   returns [rotary_dim / 2] the factors at that distance; 1 at distance 0, above 1 for keys in the future
//
// Throws std::invalid_argument "[xpos_decay] ..." for an odd rotary_dim, or a gamma or scale_base not above 0.
std::vector<double> xpos_decay(std::int64_t rotary_dim, double distance, double gamma = 0.4, double scale_base = 512);

}  // namespace poslab
