#include "poslab/core/element_type.h"

#include <cmath>

namespace poslab {
namespace {

// The nearest 16-bit float of 1 + exponent_bits + (15 - exponent_bits) bits, ties to even, from the bits of a double.
template <int exponent_bits>
std::uint16_t narrow(double value) {
  constexpr int mantissa_bits = 15 - exponent_bits;
  constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  constexpr std::uint64_t infinity = ((std::uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t sign = (bits >> 48) & 0x8000;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | infinity | (1U << (mantissa_bits - 1)));

  const std::uint64_t fraction = bits & 0x000fffffffffffff;
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023 + bias;
  if (exponent > 2 * bias) return static_cast<std::uint16_t>(sign | infinity);

  // Normal results keep exponent and fraction side by side, so that a carry moves into the exponent by itself;
  // subnormal ones show their leading 1 and lose further bits.
  const bool normal = exponent >= 1;
  const std::uint64_t kept =
      normal ? (static_cast<std::uint64_t>(exponent) << 52) | fraction : (std::uint64_t{1} << 52) | fraction;
  const int dropped = 52 - mantissa_bits + (normal ? 0 : 1 - exponent);
  if (dropped > 53) return static_cast<std::uint16_t>(sign);  // below half of the smallest subnormal
  const std::uint64_t half = std::uint64_t{1} << (dropped - 1);
  const std::uint64_t odd = (kept >> dropped) & 1;
  return static_cast<std::uint16_t>(sign | ((kept + half - 1 + odd) >> dropped));
}

}  // namespace

std::uint16_t to_bf16_bits(double value) { return narrow<8>(value); }
std::uint16_t to_f16_bits(double value) { return narrow<5>(value); }

float bf16_from_bits(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

float f16_from_bits(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t widened = exponent == 0x1f ? 0xff : exponent + 127 - 15;
  return std::bit_cast<float>(sign | (widened << 23) | (fraction << 13));
}

}  // namespace poslab
