#include "poslab/kernels/cosine_sum.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "poslab/rope/rope.h"

using namespace poslab;

namespace {

std::array<double, CosineSums::block> block_of(const CosineSums& sums, std::int64_t index) {
  std::array<double, CosineSums::block> out;
  sums.fill_block(index, out);
  return out;
}

}  // namespace

TEST_CASE("sums of cosines are within their bound of libm's, near and far") {
  for (std::int64_t rotary_dim : {2, 6, 24, 128}) {
    for (double theta : {1.0, 10000.0, 5e8}) {
      const std::vector<double> inv_freq = rope_inv_freq(rotary_dim, theta);
      double total = 0;
      for (double w : inv_freq) total += w;
      const CosineSums sums(inv_freq);
      for (std::int64_t index : {0, 1, 3, 32767}) {  // the last ends at 2^24
        const auto out = block_of(sums, index);
        for (std::size_t j = 0; j < out.size(); ++j) {
          const double m = static_cast<double>(index * CosineSums::block) + static_cast<double>(j);
          double expected = 0;
          for (double w : inv_freq) expected += std::cos(m * w);
          const double bound = static_cast<double>(inv_freq.size()) * 5e-13 + 2.3e-16 * m * total;
          REQUIRE(std::abs(out[j] - expected) <= bound);
        }
      }
    }
  }
}

TEST_CASE("every instruction set gives the same sums of cosines") {
  for (std::int64_t rotary_dim : {2, 6, 8, 14, 128}) {
    const std::vector<double> inv_freq = rope_inv_freq(rotary_dim, 500000);
    const auto expected = block_of(CosineSums(inv_freq, Isa::scalar), 77);
    for (Isa isa : supported_isas()) CHECK(block_of(CosineSums(inv_freq, isa), 77) == expected);
  }
}
