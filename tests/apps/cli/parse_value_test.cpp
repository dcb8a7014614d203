#include "cli/parse_value.h"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace poslab;
using namespace poslab::cli;

namespace {

FieldSpec field(FieldKind kind, bool list = false, bool optional = false) {
  FieldSpec spec;
  spec.name = "x";
  spec.kind = kind;
  spec.list = list;
  spec.optional = optional;
  if (kind == FieldKind::word) spec.words = {"half", "interleaved"};
  return spec;
}

Value parse(const FieldSpec& spec, std::string_view text) { return parse_value(spec, text, "--x"); }

}  // namespace

TEST_CASE("integers are decimal digits with an optional minus") {
  const FieldSpec integer = field(FieldKind::integer);
  CHECK(parse(integer, "010") == Value(std::int64_t{10}));
  CHECK(parse(integer, "-1") == Value(std::int64_t{-1}));
  CHECK(parse(integer, "9223372036854775807") == Value(INT64_MAX));
  for (const char* wrong : {"+5", "1e3", "0x10", "9223372036854775808", "3.0", "", " 1", "1 "}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse(integer, wrong), std::exception);
  }
}

TEST_CASE("reals are decimal or exponent form, and finite") {
  const FieldSpec real = field(FieldKind::real);
  CHECK(parse(real, "1e3") == Value(1000.0));
  CHECK(parse(real, "-0.5") == Value(-0.5));
  CHECK(parse(real, "4") == Value(4.0));
  for (const char* wrong : {"nan", "inf", "-inf", "1e400", "0x1p3", "+1", "1,2", "one"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse(real, wrong), std::exception);
  }
}

TEST_CASE("lists are comma-joined; null is absent where the field is optional") {
  CHECK(parse(field(FieldKind::integer, true), "3,0,4") == Value(std::vector<std::int64_t>{3, 0, 4}));
  CHECK(parse(field(FieldKind::real, true), "") == Value(std::vector<double>{}));
  CHECK(parse(field(FieldKind::text, true), "5:2,7:2") == Value(std::vector<std::string>{"5:2", "7:2"}));
  CHECK_THROWS(parse(field(FieldKind::integer, true), "1,,2"));
  CHECK_THROWS(parse(field(FieldKind::integer, true), "1,2,"));
  CHECK(parse(field(FieldKind::real, true, true), "null") == Value{});
  CHECK_THROWS(parse(field(FieldKind::real), "null"));
}

TEST_CASE("a word must be in the table and the nearest is suggested") {
  CHECK(parse(field(FieldKind::word), "half") == Value(std::string("half")));
  CHECK_THROWS_WITH_AS(parse(field(FieldKind::word), "interleave"),
                       "--x: 'interleave' is not one of half, interleaved, did you mean 'interleaved'?", UsageError);
}

TEST_CASE("text must be UTF-8") {
  CHECK(parse(field(FieldKind::text), "Äpfel, 位置, 🙂") == Value(std::string("Äpfel, 位置, 🙂")));
  CHECK_THROWS(parse(field(FieldKind::text), "\xff"));
}
