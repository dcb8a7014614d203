#include "poslab/rope/axis_batches.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

using namespace poslab;
using Reals = std::vector<double>;

namespace {

// text:2, image:2x3, text:3; a prompt of 9 tokens.
AxisPositions counted(std::int64_t batch_size, AxisCounting counting, const PositionSettings& settings = {}) {
  const std::vector<std::string> words = {"text:2", "image:2x3", "text:3"};
  return counted_positions(parse_segments(words), settings, 9, batch_size, counting);
}

}  // namespace

TEST_CASE("passes that end inside an image move nothing when the whole text is counted") {
  const Reals meant = {0, 1, 2, 2, 2, 2, 2, 2, 5, 6, 7,  // t
                       0, 1, 2, 2, 2, 3, 3, 3, 5, 6, 7,  // h
                       0, 1, 2, 3, 4, 2, 3, 4, 5, 6, 7};
  CHECK(counted(4, AxisCounting::whole).values == meant);
  // One pass hides each mistake but that of decoding.
  CHECK(counted(9, AxisCounting::batch).values == meant);
  CHECK(counted(9, AxisCounting::slice).values == meant);
  CHECK(counted(9, AxisCounting::tokens).values == Reals{0, 1, 2, 2, 2, 2, 2, 2, 5, 9, 10,  //
                                                         0, 1, 2, 2, 2, 3, 3, 3, 5, 9, 10,  //
                                                         0, 1, 2, 3, 4, 2, 3, 4, 5, 9, 10});
}

TEST_CASE("a pass that takes the rest of an image for an image, and one that cuts its positions out of the list") {
  // Passes of tokens 0-3, 4-7, 8: the image's tokens 4-7 become a grid of their own, from 3 + 1 on.
  CHECK(counted(4, AxisCounting::batch).values == Reals{0, 1, 2, 2, 4, 4, 4, 4, 7, 8, 9,  //
                                                        0, 1, 2, 2, 4, 4, 4, 5, 7, 8, 9,  //
                                                        0, 1, 2, 3, 4, 5, 6, 4, 7, 8, 9});
  // The list of the 9 tokens is t: 0 1 2 2 2 2 2 2 5, h: 0 1 2 2 2 3 3 3 5, w: 0 1 2 3 4 2 3 4 5. The first pass reads
  // 4 entries for each axis from its beginning, the second from entry 4, the third from entry 8.
  CHECK(counted(4, AxisCounting::slice).values == Reals{0, 1, 2, 2, 2, 2, 2, 2, 5, 6, 7,  //
                                                        2, 2, 2, 2, 5, 0, 1, 2, 0, 6, 7,  //
                                                        5, 0, 1, 2, 2, 2, 3, 3, 1, 6, 7});
}

TEST_CASE("sizes of passes that cannot be are refused") {
  CHECK_THROWS_WITH(counted(0, AxisCounting::whole), "[positions] batch_size must be at least 1 but got 0.");
  const std::vector<std::string> words = {"text:3"};
  CHECK_THROWS_WITH(counted_positions(parse_segments(words), {}, 4, 1, AxisCounting::whole),
                    "[positions] prompt_len must be 1 to 3 but got 4.");
  CHECK_THROWS_WITH(counted(2, AxisCounting::batch, {.rule = PositionRule::flat}),
                    "[positions] the mistake 'batch' is one of grids, which flat does not count.");
}
