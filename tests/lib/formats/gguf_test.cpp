#include "poslab/formats/gguf.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "gguf_bytes.h"
#include "golden.h"
#include "scratch.h"

using namespace poslab;

namespace {

// What the reader says after "[read_gguf] PATH: ".
std::string error_of(const std::string& bytes) {
  const Scratch scratch;
  const std::string path = scratch.file(bytes, "a.gguf");
  try {
    const GgufFile file(path);
  } catch (const std::invalid_argument& e) {
    const std::string text = e.what(), start = "[read_gguf] " + path + ": ";
    return text.rfind(start, 0) == 0 ? text.substr(start.size()) : "without the path: " + text;
  }
  return "no error";
}

GgufBytes one_tensor(std::vector<std::uint64_t> lengths, std::uint32_t type, std::uint64_t offset,
                     std::size_t data_bytes) {
  return GgufBytes().tensor("w", lengths, type, offset).data(std::string(data_bytes, '\0'));
}

constexpr std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();

}  // namespace

TEST_CASE("gguf: a value of every type and tensors, as the gguf package wrote them") {
  const GgufFile file(golden_path("all_types.gguf"));
  CHECK(file.version() == 3);
  CHECK(file.text("general.architecture") == "llama");
  CHECK(file.integer("t.u8") == 200);
  CHECK(file.integer("t.i8") == -100);
  CHECK(file.integer("t.u16") == 60000);
  CHECK(file.integer("t.i16") == -30000);
  CHECK(file.integer("t.u32") == 4000000000);
  CHECK(file.integer("t.i32") == -2000000000);
  CHECK(file.integer("t.i64") == std::numeric_limits<std::int64_t>::min());
  CHECK(file.number("t.u64") == 0x1p64);
  CHECK(file.number("t.f32") == 0.1F);
  CHECK(file.number("t.f64") == 0.1);
  CHECK(file.boolean("t.bool") == true);
  CHECK(file.text("t.string") == "naïve ▁");
  CHECK(file.strings("t.strings") == std::vector<std::string_view>{"a", "", "ccc"});
  CHECK(file.numbers("t.integers") == std::vector<double>{1, -2, 3});
  CHECK(file.numbers("t.reals") == std::vector<double>{0.5, -1.5});
  CHECK(std::get<GgufArray>(file.find_value("t.nested")->value).size == 2);
  CHECK(file.integer("t.absent") == std::nullopt);
  CHECK(file.strings("t.absent").empty());
  CHECK(file.keys().size() == 17);

  const GgufTensor& m = file.tensor("m");
  CHECK(m.shape == std::vector<std::int64_t>{2, 3});
  std::vector<float> values(6);
  file.read(m, values);
  CHECK(values == std::vector<float>{0, 1, 2, 3, 4, 5});
  std::vector<float> row(3);
  file.read_rows(m, 1, row);
  CHECK(row == std::vector<float>{3, 4, 5});
  file.read(file.tensor("h"), row);
  CHECK(row == std::vector<float>{1, -2, 0.5F});
  // Row 1 is -32/64 .. -1/64; its largest, 1/2, becomes 127 steps of (1/2) / 127 in f16.
  std::vector<float> quantised(32);
  file.read_rows(file.tensor("q"), 1, quantised);
  CHECK(quantised[0] == doctest::Approx(-0.5).epsilon(1e-3));
  CHECK(quantised[31] == doctest::Approx(-1.0 / 64).epsilon(2e-2));
}

TEST_CASE("gguf: what is asked for and not there") {
  const GgufFile file(golden_path("all_types.gguf"));
  const auto error = [&](auto ask) -> std::string {
    try {
      ask();
    } catch (const std::invalid_argument& e) {
      return std::string(e.what()).substr(std::string("[read_gguf] " + file.path() + ": ").size());
    }
    return "no error";
  };
  CHECK(error([&] { file.tensor("absent"); }) == "has no tensor absent.");
  CHECK(error([&] { file.integer("t.f32"); }) == "metadata t.f32 must be an integer but is f32.");
  CHECK(error([&] { file.integer("t.u64"); }) == "metadata t.u64 is 18446744073709551615, too large.");
  CHECK(error([&] { file.number("t.bool"); }) == "metadata t.bool must be a number but is bool.");
  CHECK(error([&] { file.text("t.u8"); }) == "metadata t.u8 must be a string but is u8.");
  CHECK(error([&] { file.boolean("t.u8"); }) == "metadata t.u8 must be a bool but is u8.");
  CHECK(error([&] { file.strings("t.integers"); }) == "metadata t.integers must be an array of strings.");
  CHECK(error([&] { file.numbers("t.strings"); }) == "metadata t.strings must be an array of numbers.");
  std::vector<float> rows(6);
  CHECK(error([&] { file.read_rows(file.tensor("m"), 1, rows); }) ==
        "tensor m has 2 rows of 3; 6 numbers from row 1 on are not there.");
  CHECK(error([&] { file.read_rows(file.tensor("m"), 0, std::span(rows).first(4)); }) ==
        "tensor m has 2 rows of 3; 4 numbers from row 0 on are not there.");
}

TEST_CASE("gguf: version 2 reads like version 3, alignment is the file's own") {
  const Scratch scratch;
  GgufBytes bytes;
  bytes.u32("general.alignment", 8)
      .tensor("w", {2}, 0, 8)
      .data(std::string(8, '\0') + GgufBytes::raw(1.0F) + GgufBytes::raw(2.0F));
  const GgufFile file(scratch.file(bytes.bytes(2), "a.gguf"));
  std::vector<float> values(2);
  file.read(file.tensor("w"), values);
  CHECK(file.version() == 2);
  CHECK(values == std::vector<float>{1, 2});
}

TEST_CASE("gguf: paths that are no file") {
  const Scratch scratch;
  const auto error = [](const std::string& path) -> std::string {
    try {
      const GgufFile file(path);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "no error";
  };
  const std::string absent = scratch.path("absent.gguf"), link = scratch.path("link.gguf");
  CHECK(error(absent) == "[read_gguf] " + absent + ": cannot be read: No such file or directory.");
  std::filesystem::create_symlink("nowhere.gguf", link);
  CHECK(error(link) == "[read_gguf] " + link + ": is a symlink to nowhere.gguf, which does not exist.");
  CHECK(error(scratch.path("")) == "[read_gguf] " + scratch.path("") + ": is a directory, not a file.");
  CHECK(error("/dev/null") == "[read_gguf] /dev/null: is not a regular file.");
  CHECK(error_of("") == "is empty (0 bytes).");
}

TEST_CASE("gguf: other formats are named") {
  CHECK(error_of("GG") == "is not a GGUF file (it does not start with GGUF).");
  CHECK(error_of("PK\x03\x04 zip").find("a PyTorch pickle") != std::string::npos);
  CHECK(error_of("\x80\x02}q").find("a PyTorch pickle") != std::string::npos);
  CHECK(error_of("{\"a\": 1}") == "is not a GGUF file but JSON text.");
  CHECK(error_of(GgufBytes::raw<std::uint64_t>(2) + "{}") == "is not a GGUF file but a safetensors file.");
  CHECK(error_of("version https://git-lfs.github.com/spec/v1\n").find("Git LFS pointer") != std::string::npos);
  CHECK(error_of("tjgg" + std::string(40, '\1')).find("old GGML") != std::string::npos);
}

TEST_CASE("gguf: headers that are wrong") {
  CHECK(error_of("GGUF") == "is truncated: the version needs 4 bytes from byte 4 on but the file has 4.");
  CHECK(error_of(GgufBytes().bytes(1)) == "has GGUF version 1; 2 and 3 are read.");
  CHECK(error_of(GgufBytes().bytes(4)) == "has GGUF version 4; 2 and 3 are read.");
  CHECK(error_of(GgufBytes().bytes(0x03000000)) == "is big-endian; only little-endian GGUF is read.");
  const std::string start = "GGUF" + GgufBytes::raw<std::uint32_t>(3);
  CHECK(error_of(start + GgufBytes::raw(huge) + GgufBytes::raw<std::uint64_t>(0)) ==
        "is truncated or damaged: 0 metadata values and 18446744073709551615 tensors do not fit in 24 bytes.");
  CHECK(error_of(start + GgufBytes::raw<std::uint64_t>(0) + GgufBytes::raw(std::uint64_t{1} << 63)) ==
        "is truncated or damaged: 9223372036854775808 metadata values and 0 tensors do not fit in 24 bytes.");
}

TEST_CASE("gguf: metadata that is wrong") {
  const auto padded = [](const GgufBytes& bytes) { return bytes.bytes() + std::string(64, '\0'); };
  CHECK(error_of(GgufBytes().entry("k", 13, "").bytes() + "0123") == "metadata k has the unknown value type 13.");
  CHECK(error_of(padded(GgufBytes().entry("k", 8, GgufBytes::raw(huge)))).find("is truncated: metadata k needs") == 0);
  CHECK(error_of(padded(GgufBytes().entry("k", 9, GgufBytes::raw<std::uint32_t>(5) + GgufBytes::raw(huge)))) ==
        "is truncated: metadata k has 18446744073709551615 elements, more than the 64 bytes left can hold.");
  CHECK(error_of(GgufBytes().u32("k", 1).u32("k", 2).bytes()) == "metadata k stands there twice.");
  std::string nested;
  for (int i = 0; i < 5; ++i) nested += GgufBytes::raw<std::uint32_t>(9) + GgufBytes::raw<std::uint64_t>(1);
  CHECK(error_of(padded(GgufBytes().entry("k", 9, nested))) == "metadata k holds arrays nested deeper than 4.");
  for (std::uint32_t alignment : {0U, 4U, 24U}) {
    CHECK(error_of(GgufBytes().u32("general.alignment", alignment).bytes()) ==
          "general.alignment must be a power of two of 8 or more but is " + std::to_string(alignment) + ".");
  }
  CHECK(error_of(GgufBytes().f32("general.alignment", 32).bytes()) ==
        "metadata general.alignment must be an integer but is f32.");
}

TEST_CASE("gguf: tensors that are wrong") {
  CHECK(error_of(one_tensor({2}, 0, 0, 8).bytes()) == "no error");
  CHECK(error_of(one_tensor({2}, 0, 0, 8).tensor("w", {2}, 0, 0).bytes()) == "tensor w stands there twice.");
  CHECK(error_of(one_tensor({1, 1, 1, 1, 1}, 0, 0, 8).bytes()) == "tensor w has 5 dimensions; at most 4 are read.");
  CHECK(error_of(one_tensor({std::uint64_t{1} << 63}, 0, 0, 8).bytes()) ==
        "the size of tensor w overflows at dimension 0 of length 9223372036854775808.");
  CHECK(error_of(one_tensor({1U << 31, 1U << 31, 4}, 0, 0, 8).bytes()) ==
        "the size of tensor w overflows at dimension 2 of length 4.");
  CHECK(error_of(one_tensor({std::uint64_t{1} << 62}, 0, 0, 8).bytes()) == "the size of tensor w overflows.");
  CHECK(error_of(one_tensor({256}, 23, 0, 8).bytes()) ==
        "tensor w has type IQ4_XS (23); F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K are read.");
  CHECK(error_of(one_tensor({256}, 999, 0, 8).bytes()).find("tensor w has type 999; F32") == 0);
  CHECK(error_of(one_tensor({48}, 8, 0, 64).bytes()) ==
        "tensor w has rows of 48 numbers, no multiple of Q8_0's block of 32.");
  CHECK(error_of(one_tensor({2}, 0, 4, 64).bytes()) == "tensor w starts at 4, no multiple of the alignment 32.");
  CHECK(error_of(one_tensor({2}, 0, 64, 8).bytes()) ==
        "is truncated: tensor w needs 8 bytes from byte 64 of the data on but there are 8.");
  CHECK(error_of(one_tensor({std::uint64_t{1} << 40}, 0, 0, 8).bytes()) ==
        "is truncated: tensor w needs 4398046511104 bytes from byte 0 of the data on but there are 8.");
  CHECK(error_of(one_tensor({2}, 0, huge - 31, 8).bytes()).find("is truncated: tensor w needs 8 bytes from byte") == 0);
  CHECK(error_of(one_tensor({16}, 0, 0, 96).tensor("v", {2}, 0, 32).bytes()) == "tensors w and v overlap.");
}

TEST_CASE("gguf: a file cut anywhere is refused, never misread") {
  const std::string whole = GgufBytes()
                                .string("general.architecture", "llama")
                                .strings("s", {"a", "bc"})
                                .numbers<std::int32_t>("n", 5, {1, 2, 3})
                                .floats("w", {2, 2}, {1, 2, 3, 4})
                                .bytes();
  CHECK(error_of(whole) == "no error");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(error_of(whole.substr(0, size)) != "no error");
  }
}
