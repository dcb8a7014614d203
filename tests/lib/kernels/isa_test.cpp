#include "poslab/kernels/isa.h"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace poslab;

TEST_CASE("the widest supported instruction set is chosen unless one is named") {
  const std::vector<Isa> isas = supported_isas();
  REQUIRE(!isas.empty());
  CHECK(isas.front() == Isa::scalar);
  CHECK(choose_isa("") == isas.back());
  for (Isa isa : isas) CHECK(choose_isa(to_word(isa)) == isa);
}

TEST_CASE("an instruction set that is unknown or missing names those the CPU has") {
  CHECK_THROWS_WITH_AS(choose_isa("sse9"), doctest::Contains("scalar"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(choose_isa("AVX2"), doctest::Contains("'AVX2'"), std::invalid_argument);
  const std::vector<Isa> isas = supported_isas();
  for (Isa isa : {Isa::avx2, Isa::avx512}) {
    if (isa <= isas.back()) continue;
    CHECK_THROWS_WITH_AS(choose_isa(to_word(isa)), doctest::Contains("has only scalar"), std::invalid_argument);
  }
}
