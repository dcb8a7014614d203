#include "poslab/core/printable.h"

#include <doctest/doctest.h>

using poslab::printable;

TEST_CASE("printable keeps a message on one short line") {
  CHECK(printable("a\nb\x1b[0m\xff") == "a?b?[0m?");
  CHECK(printable("abcd", 4) == "abcd");
  CHECK(printable("abcde", 4) == "abcd...");
}
