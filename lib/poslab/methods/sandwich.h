// Sandwich: what the sines and cosines of two positions, multiplied, say of their distance (Chi et al. 2022,
// arXiv:2212.10356, "Dissecting Transformer Length Extrapolation via the Lens of Receptive Field Analysis").
#pragma once

#include <cstdint>

namespace poslab {

class Method;
const Method& sandwich_method();

struct SandwichParams {
  std::int64_t sandwich_dim = 128;

  static void fields(auto& self, auto&& field) {
    field("sandwich_dim", self.sandwich_dim, "sandwich: channels of the position vectors whose product it is, even",
          "channels");
  }
};

// The bias of head h = 1 .. H at a distance, with d = sandwich_dim (128 in the paper):
//
//   (sum_{i=1}^{d/2} cos(distance / 10000^(2i/d)) - d/2) / (8h / H)
//
// The sum is the product of the two positions' vectors; less d/2 it is 0 at distance 0, which softmax does not see. The
// divisor, which makes the heads see to different distances, was not compared with the authors' code. Nothing is
// learned. Throws std::invalid_argument "[sandwich_bias] ..." unless dim is even and 2 .. 65536 and
// head is 0 .. n_heads - 1.
double sandwich_bias(std::int64_t dim, std::int64_t n_heads, std::int64_t head, double distance);

}  // namespace poslab
