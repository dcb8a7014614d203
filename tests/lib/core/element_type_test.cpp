#include "poslab/core/element_type.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "poslab/core/random.h"

namespace poslab {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// The definition, by search: every finite value of the type in ascending order, with the bits it came from.
struct Finite {
  double value;
  std::uint16_t bits;
};

std::vector<Finite> finite_values(float (*widen)(std::uint16_t), std::uint16_t infinity_bits) {
  std::vector<Finite> values;
  for (std::uint16_t bits = 0; bits < infinity_bits; ++bits) values.push_back({widen(bits), bits});
  return values;
}

// Every value, the midpoint to its successor and the doubles right beside that midpoint narrow as the rule says.
void check_rounding(std::uint16_t (*narrow)(double), float (*widen)(std::uint16_t), std::uint16_t infinity_bits) {
  const auto values = finite_values(widen, infinity_bits);
  int wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto [value, bits] = values[i];
    const bool last = i + 1 == values.size();
    const double step = last ? value - values[i - 1].value : values[i + 1].value - value;
    const double middle = value + step / 2;
    const auto up = static_cast<std::uint16_t>(bits + 1);
    const auto even = bits % 2 == 0 ? bits : up;
    wrong += step <= 0;
    wrong += narrow(value) != bits;
    wrong += narrow(std::nextafter(middle, 0)) != bits;
    wrong += narrow(middle) != even;
    wrong += narrow(std::nextafter(middle, infinity)) != up;
    wrong += narrow(-value) != (bits | 0x8000);
    wrong += narrow(-std::nextafter(middle, infinity)) != (up | 0x8000);
  }
  CHECK(wrong == 0);
  CHECK(narrow(infinity) == infinity_bits);
  CHECK(narrow(-infinity) == (infinity_bits | 0x8000));
  CHECK(narrow(1e300) == infinity_bits);
  CHECK(narrow(std::numeric_limits<double>::denorm_min()) == 0);
  CHECK(narrow(-std::numeric_limits<double>::denorm_min()) == 0x8000);
  CHECK(std::isnan(widen(narrow(std::numeric_limits<double>::quiet_NaN()))));
  CHECK(std::isnan(widen(static_cast<std::uint16_t>(infinity_bits + 1))));
}

}  // namespace

TEST_CASE("bf16 is rounded once, to nearest even") { check_rounding(to_bf16_bits, bf16_from_bits, 0x7f80); }
TEST_CASE("f16 is rounded once, to nearest even") { check_rounding(to_f16_bits, f16_from_bits, 0x7c00); }

TEST_CASE("known bit patterns") {
  CHECK(to_bf16_bits(1.0) == 0x3f80);
  CHECK(to_bf16_bits(-2.5) == 0xc020);
  CHECK(bf16_from_bits(0x7f7f) == 0x1.fep127F);
  CHECK(bf16_from_bits(0x0001) == 0x1p-133F);
  CHECK(to_f16_bits(1.0) == 0x3c00);
  CHECK(to_f16_bits(65504.0) == 0x7bff);
  CHECK(to_f16_bits(65519.999) == 0x7bff);
  CHECK(to_f16_bits(65520.0) == 0x7c00);
  CHECK(f16_from_bits(0x0001) == 0x1p-24F);
  CHECK(f16_from_bits(0x03ff) == 0x1.ff8p-15F);
  CHECK(f16_from_bits(0x0400) == 0x1p-14F);
  CHECK(std::signbit(f16_from_bits(0x8000)));
  CHECK(f16_from_bits(0xfc00) == -std::numeric_limits<float>::infinity());
}

TEST_CASE("rounding through f32 would give another value") {
  const double just_above_half = 1.0 + 0x1p-8 + 0x1p-40;
  CHECK(round_to(DType::bf16, just_above_half) == 1.0 + 0x1p-7);
  CHECK(round_to(DType::bf16, static_cast<float>(just_above_half)) == 1.0);
}

TEST_CASE("positions in 16 bits, as the field reports list them") {
  CHECK(round_to(DType::bf16, 257) == 256);
  CHECK(round_to(DType::bf16, 259) == 260);
  CHECK(round_to(DType::bf16, 8191) == 8192);
  CHECK(round_to(DType::bf16, 15962) == 15936);
  CHECK(round_to(DType::f16, 2049) == 2048);
}

TEST_CASE("round_to keeps f64 and narrows f32 as a cast does") {
  Generator rng(3);
  for (int i = 0; i < 1000; ++i) {
    const double x = rng.standard_normal();
    CHECK(round_to(DType::f64, x) == x);
    CHECK(round_to(DType::f32, x) == static_cast<double>(static_cast<float>(x)));
    CHECK(std::abs(round_to(DType::bf16, x) - x) <= std::abs(x) * 0x1p-8);
    CHECK(std::abs(round_to(DType::f16, x) - x) <= std::abs(x) * 0x1p-11 + 0x1p-25);
  }
  CHECK(bytes_per_element(DType::f64) == 8);
  CHECK(bytes_per_element(DType::f32) == 4);
  CHECK(bytes_per_element(DType::bf16) == 2);
  CHECK(bytes_per_element(DType::f16) == 2);
}

}  // namespace poslab
