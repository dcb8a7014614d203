#include "poslab/formats/json_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

using namespace poslab;

namespace {

std::string error_of(const auto& call) {
  try {
    call();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

std::string parse_error_of(const std::string& text, int max_depth = 16) {
  return error_of([&] { parse_json(text, "x.json", max_depth); });
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct TempDir {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("poslab_json_" + std::to_string(::getpid()));
  TempDir() { std::filesystem::create_directories(path); }
  ~TempDir() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_CASE("json_file: equals nlohmann's own parser on ordinary text") {
  const std::string text =
      R"({"a": [1, -2, 3.5, 1e3, true, false, null, "x\n\u00e9"], "b": {"c": {}, "d": []}, "big": 18446744073709551615})";
  CHECK(parse_json(text, "x") == nlohmann::json::parse(text));
  CHECK(parse_json("7", "x") == 7);
  CHECK(parse_json(R"({"a": [[1], {"b": [2]}, 3]})", "x") == nlohmann::json::parse(R"({"a": [[1], {"b": [2]}, 3]})"));
}

TEST_CASE("json_file: integers beyond 64 bits are not integers") {
  CHECK(parse_json("3.0", "x").is_number_float());
  CHECK(parse_json("99999999999999999999", "x").is_number_float());
  CHECK(has(parse_error_of("1e999"), "x.json"));
}

TEST_CASE("json_file: errors name the source and what is wrong, in one line") {
  CHECK(has(parse_error_of("{\"a\": }"), "[read_json] x.json: not JSON: parse error at line 1, column 7"));
  CHECK(has(parse_error_of("{\"a\": 1, \"b\": {\"a\": 1}, \"a\": 2}"), "duplicate key 'a'"));
  CHECK(parse_error_of("[{\"a\": 1}, {\"a\": 1}]").empty());
  for (const std::string bad :
       {"", "{", "{\"a\": 1} 2", "{'a': 1}", "[1,]", "NaN", "\"\xff\"", "\"\x01\"", "// c\n1"}) {
    CHECK_MESSAGE(has(parse_error_of(bad), "not JSON"), bad);
    CHECK(!has(parse_error_of(bad), "\n"));
  }
  const std::string long_key(100000, 'k');
  CHECK(parse_error_of("{\"" + long_key + "\": 1, \"" + long_key + "\": 1}").size() < 400);
  CHECK(parse_error_of("\"" + long_key).size() < 400);
}

TEST_CASE("json_file: depth is refused while parsing") {
  CHECK(parse_error_of("[[1]]", 2).empty());
  CHECK(has(parse_error_of("[[[1]]]", 2), "nested deeper than 2 levels"));
  CHECK(parse_error_of("1", 0).empty());
  CHECK(has(parse_error_of(std::string(2000000, '[')), "nested deeper than 16 levels"));
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  CHECK(has(parse_error_of(objects), "nested deeper than 16 levels"));
}

TEST_CASE("json_file: files that are missing, a directory or too large") {
  const TempDir dir;
  const std::string path = dir.path / "c.json";
  const auto read_error = [](const std::string& p) { return error_of([&] { read_json_file(p); }); };
  CHECK(has(read_error(path), "c.json: cannot be read: No such file or directory"));
  CHECK(has(read_error(dir.path), "is a directory"));

  std::ofstream(path) << "{\"a\": 1}";
  CHECK(read_json_file(path)["a"] == 1);

  std::filesystem::resize_file(path, 1'000'000'000);  // sparse
  CHECK(has(read_error(path), "larger than 64 MB"));
  CHECK(has(read_error("/dev/zero"), "larger than 64 MB"));
  std::filesystem::resize_file(path, 1000);  // zero bytes after the object
  CHECK(has(read_error(path), "not JSON"));
}
