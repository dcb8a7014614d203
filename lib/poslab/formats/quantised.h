// The storage types of GGML's tensors and their numbers. Block layouts: ggml/src/ggml-common.h of ggml-org/llama.cpp;
// each number is rounded to float after every operation, as PyPI's gguf package does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace poslab {

// Numbered as in GGUF files.
enum class GgmlType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  bf16 = 30
};

struct GgmlTypeInfo {
  GgmlType type;
  std::string_view word;    // "Q4_K"
  std::int64_t block_size;  // elements; a row is a whole number of blocks
  std::int64_t block_bytes;
};

// nullptr for a type that is not read.
const GgmlTypeInfo* find_ggml_type(std::uint32_t number);
// "IQ4_XS (23)", "23" where the number is not known either.
std::string ggml_type_text(std::uint32_t number);
// "F32, F16, ...": all types that are read.
std::string readable_ggml_types();

// `from` holds out.size() / block_size blocks, 2-byte aligned (4 for f32); out.size() must be a multiple of block_size,
// else std::invalid_argument.
void dequantise(GgmlType type, const std::byte* from, std::span<float> out);

}  // namespace poslab
