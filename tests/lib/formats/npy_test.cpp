#include "poslab/formats/npy.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "golden.h"
#include "poslab/core/narrow.h"
#include "scratch.h"

using namespace poslab;

namespace {

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::string version_1(std::string dictionary, const std::string& data) {
  dictionary += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(dictionary.size() & 0xff);
  out += static_cast<char>(dictionary.size() >> 8);
  return out + dictionary + data;
}

std::string error_of(const std::string& path) {
  try {
    read_npy(path);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("npy: every file that numpy writes reads back as the values it holds") {
  const Scratch scratch;
  const auto files = golden("npy_files.json")["files"];
  for (const auto& file : files) {
    const auto name = file["name"].get<std::string>();
    CAPTURE(name);
    const std::string path = scratch.file(from_hex(file["hex"].get<std::string>()));
    const auto shape = file["shape"].get<std::vector<std::int64_t>>();
    if (contains(name, "u8 beyond i8")) {
      CHECK(read_npy(path).values == std::vector<double>{0x1p63});
      CHECK_THROWS_AS(read_npy_integers(path), std::invalid_argument);
      continue;
    }
    const bool integers = !file["values"].empty() && file["values"][0].is_number_integer();
    if (integers) {
      const auto array = read_npy_integers(path);
      CHECK(array.shape == shape);
      CHECK(array.values == file["values"].get<std::vector<std::int64_t>>());
    }
    if (name == "i8 extremes") {
      CHECK(contains(error_of(path), "holds 9223372036854775807, which no double equals"));
      continue;
    }
    const auto array = read_npy(path);
    CHECK(array.shape == shape);
    REQUIRE(array.values.size() == file["values"].size());
    for (std::size_t i = 0; i < array.values.size(); ++i) {
      const auto& expected = file["values"][i];
      const double value = expected.is_boolean() ? (expected.get<bool>() ? 1.0 : 0.0) : expected.get<double>();
      CHECK(array.values[i] == value);
      CHECK(std::signbit(array.values[i]) == std::signbit(value));
    }
  }
}

TEST_CASE("npy: integers are refused where the file holds reals") {
  const Scratch scratch;
  const std::string path =
      scratch.file(version_1("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", std::string(8, '\0')));
  CHECK_THROWS_WITH(read_npy_integers(path), ("[read_npy] " + path +
                                              ": holds float64 elements where integers are "
                                              "needed.")
                                                 .c_str());
}

TEST_CASE("npy: a path that cannot be read says why") {
  const Scratch scratch;
  const std::string missing = scratch.path("none.npy");
  CHECK(error_of(missing) == "[read_npy] " + missing + ": No such file or directory.");
  CHECK(error_of(scratch.path("")) == "[read_npy] " + scratch.path("") + ": is a directory.");
  CHECK(error_of("/dev/null") == "[read_npy] /dev/null: is not a regular file.");
  const std::string pipe = scratch.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(error_of(pipe) == "[read_npy] " + pipe + ": is not a regular file.");
  if (::geteuid() != 0) {
    const std::string secret = scratch.file("x");
    std::filesystem::permissions(secret, std::filesystem::perms::none);
    CHECK(contains(error_of(secret), "Permission denied"));
  }
}

TEST_CASE("npy: what is not whole is refused, wherever it is cut") {
  const Scratch scratch;
  const auto files = golden("npy_files.json")["files"];
  const std::string whole = from_hex(files[0]["hex"].get<std::string>());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    const std::string error = error_of(scratch.file(whole.substr(0, length)));
    CHECK((contains(error, "truncated") || contains(error, "too short")));
  }
  CHECK(contains(error_of(scratch.file(whole + "x")),
                 "has trailing bytes: its header (2 x 3 of dtype <f2) asks for 12 bytes of data and it holds 13"));
}

TEST_CASE("npy: no byte of a file can break the reader") {
  const Scratch scratch;
  const auto files = golden("npy_files.json")["files"];
  const std::string whole = from_hex(files[1]["hex"].get<std::string>());
  for (std::size_t at = 0; at < 128; ++at) {
    for (char byte : {'\x00', '\xff', '(', '9', '\'', ']'}) {
      std::string broken = whole;
      broken[at] = byte;
      error_of(scratch.file(broken));  // an error or other values, but no crash and no other exception
    }
  }
}

TEST_CASE("npy: a header that asks for what it must not") {
  const Scratch scratch;
  const auto error = [&](const std::string& dictionary, const std::string& data = std::string(8, '\0')) {
    return error_of(scratch.file(version_1(dictionary, data)));
  };
  const std::string f8 = "{'descr': '<f8', 'fortran_order': False, 'shape': ";
  CHECK(error(f8 + "(1,), }") == "no error");
  CHECK(error("{\"shape\": (1L,), 'fortran_order': True, 'descr': '=f8'}") == "no error");
  CHECK(contains(error(f8 + "(4294967296, 4294967296), }"), "overflows"));
  CHECK(contains(error(f8 + "(99999999999999999999, ), }"), "overflows"));
  CHECK(contains(error(f8 + "(1000000000000, ), }"), "asks for 8000000000000 bytes of data and it holds 8"));
  CHECK(contains(error("{'descr': '>f8', 'fortran_order': True, 'shape': (0, 9223372036854775807, 1000), }", ""),
                 "no error"));
  CHECK(contains(error(f8 + "(-1,), }"), "not numpy's"));
  CHECK(contains(error(f8 + "(1,), 'more': 1}"), "not numpy's"));
  CHECK(contains(error(f8 + "(1,), } 5"), "not numpy's"));
  CHECK(contains(error("{'descr': '<f8', 'shape': (1,), }"), "not numpy's"));
  CHECK(contains(error("{'descr': '<f8', 'fortran_order': 1, 'shape': (1,), }"), "not numpy's"));
  CHECK(contains(error("hello"), "not numpy's"));
  CHECK(contains(error("{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }"), "dtype <c16"));
  CHECK(contains(error("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"), "dtype |O"));
  CHECK(contains(error("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }"), "dtype [('a', '<f8')]"));
  CHECK(contains(error_of(scratch.file("PK\x03\x04 and more bytes")), "not a .npy file"));
  CHECK(contains(error_of(scratch.file(std::string("\x93NUMPY\x04\x00", 8) + "xxxxxxxx")), "version 4.0"));
  CHECK(contains(error_of(scratch.file(std::string("\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12))), "truncated"));
}

TEST_CASE("npy: a table is a matrix of finite numbers") {
  const Scratch scratch;
  const auto error = [&](const std::string& shape, std::vector<double> values) {
    const std::string data(reinterpret_cast<const char*>(values.data()), 8 * values.size());
    const std::string path =
        scratch.file(version_1("{'descr': '<f8', 'fortran_order': False, 'shape': (" + shape + "), }", data));
    try {
      read_npy_matrix(path);
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  CHECK(error("1, 2", {1, 2}) == "no error");
  CHECK(contains(error("2, ", {1, 2}), "rows and columns but has shape 2."));
  CHECK(contains(error("1, 2, 1", {1, 2}), "has shape 1 x 2 x 1"));
  CHECK(contains(error("", {1}), "has shape a single value"));
  CHECK(contains(error("0, 3", {}), "has shape 0 x 3"));
  CHECK(contains(error("2, 2", {1, 2, 3, std::nan("")}), "holds nan in row 1, column 1"));
}

TEST_CASE("npy: headers are numpy's own bytes, and values are narrowed once") {
  const Scratch scratch;
  const auto files = golden("npy_files.json")["files"];
  for (const auto& file : files) {
    const auto name = file["name"].get<std::string>();
    const auto shape = file["shape"].get<std::vector<std::int64_t>>();
    const std::string bytes = from_hex(file["hex"].get<std::string>());
    if (name == "<f8 C" || name == "single value" || name == "empty") {
      CHECK(bytes.substr(0, bytes.size() - 8 * file["values"].size()) == npy_header(DType::f64, shape));
    }
    if (name == "<f4 C") CHECK(bytes.substr(0, bytes.size() - 24) == npy_header(DType::f32, shape));
    if (name == "<f2 C") CHECK(bytes.substr(0, bytes.size() - 12) == npy_header(DType::f16, shape));
  }
  const std::vector<double> values{1.0 / 3, -2, 0.1, 0};
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (const auto& shape : {std::vector<std::int64_t>{4}, std::vector<std::int64_t>{2, 2}}) {
      const std::string header = npy_header(dtype, shape);
      CHECK(header.size() % 64 == 0);
      std::vector<std::byte> data(values.size() * bytes_per_element(dtype));
      narrow_to_bytes(dtype, values, data.data());
      const auto array =
          read_npy(scratch.file(header + std::string(reinterpret_cast<const char*>(data.data()), data.size())));
      CHECK(array.shape == shape);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double expected = dtype == DType::bf16 ? to_bf16_bits(values[i]) : round_to(dtype, values[i]);
        CHECK(array.values[i] == expected);
      }
    }
  }
}
