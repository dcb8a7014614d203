#include "poslab/methods/learned.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "golden.h"
#include "poslab/methods/learned_table.h"
#include "poslab/methods/positions.h"

using namespace poslab;

TEST_CASE("a drawn learned table is the generator's next normals, times 0.02") {
  Generator generator(7), twin(7);
  const LearnedTable table(3, 2, generator);
  const auto normals = twin.normals(6);
  for (std::int64_t p = 0; p < 3; ++p) {
    for (std::size_t c = 0; c < 2; ++c) CHECK(table.row(p)[c] == 0.02 * normals[static_cast<std::size_t>(2 * p) + c]);
  }
  CHECK(generator.standard_normal() == twin.standard_normal());
}

TEST_CASE("a learned table has nothing past its end") {
  const LearnedTable table(Tensor<double, 2>{{1, 2}, {3, 4}});
  CHECK(table.row(1)[0] == 3);
  CHECK_THROWS_WITH(table.row(2), doctest::Contains("no vector for position 2: a learned table of 2 rows"));
  CHECK_THROWS_AS(table.row(-1), std::invalid_argument);
  CHECK_NOTHROW(require_learned_positions(1024, 1024));
  CHECK_THROWS_WITH(require_learned_positions(1500, 1024),
                    doctest::Contains("1500 tokens do not fit a learned table of 1024 rows"));
}

TEST_CASE("a learned table refuses sizes that hold nothing or are too large") {
  Generator generator(0);
  CHECK_THROWS_AS(LearnedTable(make_tensor<double>(0, 2)), std::invalid_argument);
  CHECK_THROWS_AS(LearnedTable(std::int64_t{1} << 40, std::int64_t{1} << 40, generator), std::invalid_argument);
  CHECK_THROWS_AS(LearnedTable(std::int64_t{1} << 20, 1024, generator), std::invalid_argument);
  CHECK_THROWS_AS(LearnedTable(4, 0, generator), std::invalid_argument);
}

TEST_CASE("positions of left-padded text count from its first token, as BLOOM's bias does") {
  const std::vector<std::int64_t> mask{0, 0, 1, 1, 1};
  const auto positions = positions_from_mask(mask);
  CHECK(positions == std::vector<std::int64_t>{0, 0, 0, 1, 2});
  CHECK(positions_from_mask(std::vector<std::int64_t>{0, 1, 1, 0}) == std::vector<std::int64_t>{0, 0, 1, 0});
  const auto bloom = golden("alibi.json")["bloom_left_padded_mask_00111_heads4"];
  const std::vector<double> slopes{0.25, 0.0625, 0.015625, 0.00390625};
  for (std::size_t h = 0; h < slopes.size(); ++h) {
    for (std::size_t k = 0; k < mask.size(); ++k) {
      CHECK(slopes[h] * static_cast<double>(positions[k]) == bloom[h][k].get<double>());
    }
  }
  CHECK_THROWS_AS(positions_from_mask(std::vector<std::int64_t>{0, 2}), std::invalid_argument);
}
