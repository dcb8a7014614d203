#include "cli/arguments.h"

#include <doctest/doctest.h>

#include "cli/parse_value.h"

using namespace poslab;
using namespace poslab::cli;

namespace {

std::vector<FieldSpec> fields() {
  std::vector<FieldSpec> all(4);
  all[0].name = "rope_theta";
  all[0].kind = FieldKind::real;
  all[1].name = "quiet";
  all[1].kind = FieldKind::boolean;
  all[2].name = "sweep";
  all[2].kind = FieldKind::text;
  all[2].list = true;
  all[3].name = "model";
  all[3].kind = FieldKind::text;
  return all;
}

Arguments parse(std::vector<std::string> words, std::string_view positional = "") {
  return parse_arguments(fields(), positional, words);
}

std::string error_of(std::vector<std::string> words) {
  try {
    parse(std::move(words));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("flags take their value after a space or an equals sign") {
  CHECK(parse({"--rope-theta", "5e5"}).values.at("rope_theta") == "5e5");
  CHECK(parse({"--rope-theta=-1"}).values.at("rope_theta") == "-1");
  CHECK(parse({"--rope-theta", "-1,2"}).values.at("rope_theta") == "-1,2");
  CHECK(parse({"--model", ""}).values.at("model") == "");
}

TEST_CASE("booleans are --x and --no-x, once") {
  CHECK(parse({"--quiet"}).values.at("quiet") == "true");
  CHECK(parse({"--no-quiet"}).values.at("quiet") == "false");
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"--quiet", "--no-quiet"}, {"--quiet", "--quiet"}, {"--quiet=true"}, {"--no-quiet=false"}}) {
    CHECK_THROWS_AS(parse(words), UsageError);
  }
}

TEST_CASE("what CLI11 would misread is refused") {
  CHECK(error_of({"--rope-theta=", "--quiet"}).find("empty value") != std::string::npos);
  CHECK(error_of({"--rope-theta", "--quiet"}).find("needs a value") != std::string::npos);
  CHECK(error_of({"--rope-theta"}).find("needs a value") != std::string::npos);
  CHECK(error_of({"--"}) != "");
  CHECK(error_of({"++"}) != "");
  CHECK(error_of({"--rope-theta", "1", "--rope-theta", "2"}).find("2 times") != std::string::npos);
  CHECK(error_of({"--rop-theta", "1"}) == "unknown flag '--rop-theta', did you mean '--rope-theta'?");
  CHECK(error_of({"--bogus", "--help"}) != "");
  CHECK(error_of({"--rope_theta", "1"}) != "");
  CHECK(error_of({"-x"}) != "");
  CHECK(error_of({"word"}) != "");
}

TEST_CASE("a bare word is the positional parameter; --sweep repeats") {
  CHECK(parse({"llama-2-7b"}, "model").values.at("model") == "llama-2-7b");
  CHECK_THROWS_AS(parse({"a", "b"}, "model"), UsageError);
  CHECK_THROWS_AS(parse({"a", "--model", "b"}, "model"), UsageError);
  CHECK(parse({"--sweep", "a=1", "--sweep=b=2"}).sweeps == std::vector<std::string>{"a=1", "b=2"});
  CHECK(parse({"--help"}).help);
}
