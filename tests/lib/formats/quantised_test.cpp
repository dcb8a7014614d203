#include "poslab/formats/quantised.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "golden.h"

using namespace poslab;

namespace {

std::vector<std::byte> from_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

}  // namespace

TEST_CASE("dequantise: every type gives the bits of PyPI's gguf package") {
  const auto all = golden("quantised.json");
  int types = 0;
  for (const auto& [word, expected] : all.items()) {
    if (word == "_meta") continue;
    CAPTURE(word);
    const GgmlTypeInfo* info = find_ggml_type(expected["number"].get<std::uint32_t>());
    REQUIRE(info);
    CHECK(info->word == word);
    const auto bytes = from_hex(expected["bytes"].get<std::string>());
    const auto bits = from_hex(expected["values"].get<std::string>());
    REQUIRE(bytes.size() / static_cast<std::size_t>(info->block_bytes) * static_cast<std::size_t>(info->block_size) ==
            bits.size() / 4);
    std::vector<float> values(bits.size() / 4);
    dequantise(info->type, bytes.data(), values);
    CHECK(std::memcmp(values.data(), bits.data(), bits.size()) == 0);
    ++types;
  }
  CHECK(types == 11);
}

TEST_CASE("dequantise: what is not read is named, with what is") {
  CHECK(find_ggml_type(23) == nullptr);
  CHECK(ggml_type_text(23) == "IQ4_XS (23)");
  CHECK(ggml_type_text(4'000'000'000U) == "4000000000");
  CHECK(ggml_type_text(3 + 9) == "Q4_K (12)");
  CHECK(readable_ggml_types() == "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K");
}

TEST_CASE("dequantise: a part of a block is refused") {
  const std::vector<std::byte> block(34);
  std::vector<float> out(31);
  CHECK_THROWS_WITH_AS(dequantise(GgmlType::q8_0, block.data(), out),
                       "[dequantise] 31 numbers are no whole number of blocks of type Q8_0 (8).",
                       std::invalid_argument);
}
