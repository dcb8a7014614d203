// The storage types of poslab and the one rule for narrowing: round to nearest, ties to even, once.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "poslab/core/fields.h"

namespace poslab {

enum class DType { f64, f32, bf16, f16 };
constexpr auto words(DType) {
  return word_table<DType>({{DType::f64, "f64"}, {DType::f32, "f32"}, {DType::bf16, "bf16"}, {DType::f16, "f16"}});
}

constexpr std::size_t bytes_per_element(DType type) { return type == DType::f64 ? 8 : type == DType::f32 ? 4 : 2; }

// The bits of the nearest bf16 / f16 to `value`; f64 is rounded once, never through f32.
std::uint16_t to_bf16_bits(double value);
std::uint16_t to_f16_bits(double value);
float bf16_from_bits(std::uint16_t bits);
float f16_from_bits(std::uint16_t bits);

// `value` rounded to `type` and widened again.
inline double round_to(DType type, double value) {
  switch (type) {
    case DType::f64:
      return value;
    case DType::f32:
      return static_cast<float>(value);
    case DType::bf16:
      return bf16_from_bits(to_bf16_bits(value));
    case DType::f16:
      return f16_from_bits(to_f16_bits(value));
  }
  return value;
}

}  // namespace poslab
