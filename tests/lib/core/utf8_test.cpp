#include "poslab/core/utf8.h"

#include <doctest/doctest.h>

#include <string>

using namespace poslab;

TEST_CASE("UTF-8 is what Unicode's table 3-7 allows, for every pair of bytes and every edge") {
  // Well-formed sequences: the range of the second byte depends on the first one.
  for (int lead = 0; lead < 256; ++lead) {
    const std::size_t length = lead < 0x80    ? 1
                               : lead < 0xC2  ? 0
                               : lead < 0xE0  ? 2
                               : lead < 0xF0  ? 3
                               : lead <= 0xF4 ? 4
                                              : 0;
    const int least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const int most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (int second = 0; second < 256; ++second) {
      const std::string text{static_cast<char>(lead), static_cast<char>(second), '\x80', '\xBF'};
      const bool good = length == 1 || (length > 1 && second >= least && second <= most);
      CHECK(first_utf8(text).length == (good ? length : 0));
    }
  }
  CHECK(first_utf8("\xF0\x9F\x98\x80!").code == U'\U0001F600');
  CHECK(first_utf8("\xEF\xBF\xBF").length == 3);  // U+FFFF, no character but a code point
  CHECK(first_utf8("").length == 0);
}

TEST_CASE("a text is UTF-8 when all of it is") {
  CHECK(is_utf8(""));
  CHECK(is_utf8(std::string("a\0b", 3)));
  CHECK(is_utf8("\xC3\xA4\xE2\x82\xAC"));
  for (const char* text : {"a\xC3", "\xE2\x82", "\xF0\x9F\x98", "a\x80", "\xC3\xA4\xFF"}) CHECK_FALSE(is_utf8(text));
}
