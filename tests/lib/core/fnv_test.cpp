#include "poslab/core/fnv.h"

#include <doctest/doctest.h>

#include <string_view>

using namespace poslab;

TEST_CASE("FNV-1a gives the authors' test values") {
  const auto hash = [](std::string_view text) {
    Fnv1a state;
    for (char c : text) state.add(static_cast<unsigned char>(c));
    return state.value();
  };
  // www.isthe.com/chongo/src/fnv/test_fnv.c
  CHECK(hash("") == 0xcbf29ce484222325);
  CHECK(hash("a") == 0xaf63dc4c8601ec8c);
  CHECK(hash("foobar") == 0x85944171f73967e8);
}
