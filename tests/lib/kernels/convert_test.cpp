#include "poslab/kernels/convert.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "poslab/core/element_type.h"
#include "poslab/core/random.h"

using namespace poslab;

namespace {

std::uint16_t bits_of(Storage type, double value) {
  return type == Storage::bf16 ? to_bf16_bits(value) : to_f16_bits(value);
}
float value_of(Storage type, std::uint16_t bits) {
  return type == Storage::bf16 ? bf16_from_bits(bits) : f16_from_bits(bits);
}

// Values of every magnitude, and those on and next to the halfway points of `type`.
std::vector<double> hard_values(Storage type) {
  std::vector<double> values = {
      0.0,   -0.0,  std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), 1e-300, -1e-300,
      1e300, 5e-324};
  for (std::uint32_t bits = 0; bits < 0x10000; bits += 7) {
    const double low = static_cast<double>(value_of(type, static_cast<std::uint16_t>(bits)));
    const double high = static_cast<double>(value_of(type, static_cast<std::uint16_t>(bits + 1)));
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    const double middle = (low + high) / 2;
    for (double v : {low, middle, std::nextafter(middle, 1e308), std::nextafter(middle, -1e308)}) values.push_back(v);
  }
  return values;
}

}  // namespace

TEST_CASE("every 16-bit pattern widens exactly") {
  std::vector<std::uint16_t> patterns(0x10000);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  for (Storage type : {Storage::bf16, Storage::f16}) {
    for (Isa isa : supported_isas()) {
      std::vector<float> out(patterns.size());
      widen(patterns.data(), type, out, isa);
      for (std::size_t i = 0; i < patterns.size(); ++i) {
        const float expected = value_of(type, patterns[i]);
        if (std::isnan(expected)) {
          REQUIRE(std::isnan(out[i]));
        } else {
          REQUIRE(std::bit_cast<std::uint32_t>(out[i]) == std::bit_cast<std::uint32_t>(expected));
        }
      }
    }
  }
}

TEST_CASE("narrowing rounds once, to the nearest, ties to even") {
  for (Storage type : {Storage::bf16, Storage::f16}) {
    const std::vector<double> values = hard_values(type);
    std::vector<float> floats;
    for (double v : values) floats.push_back(static_cast<float>(v));
    for (Isa isa : supported_isas()) {
      std::vector<std::uint16_t> of_f64(values.size()), of_f32(values.size());
      narrow(std::span<const double>(values), type, of_f64.data(), isa);
      narrow(std::span<const float>(floats), type, of_f32.data(), isa);
      for (std::size_t i = 0; i < values.size(); ++i) {
        CAPTURE(values[i]);
        REQUIRE(of_f64[i] == bits_of(type, values[i]));
        REQUIRE(of_f32[i] == bits_of(type, static_cast<double>(floats[i])));
      }
    }
  }
}

TEST_CASE("a NaN stays one, whatever its payload") {
  std::vector<float> nans;
  for (std::uint32_t bits : {0x7f800001U, 0x7fffffffU, 0xff800001U, 0xffffffffU, 0x7fc00000U}) {
    nans.push_back(std::bit_cast<float>(bits));
  }
  const std::vector<double> wide(nans.size(), std::numeric_limits<double>::quiet_NaN());
  for (Storage type : {Storage::bf16, Storage::f16}) {
    for (Isa isa : supported_isas()) {
      std::vector<std::uint16_t> of_f32(nans.size()), of_f64(nans.size());
      narrow(std::span<const float>(nans), type, of_f32.data(), isa);
      narrow(std::span<const double>(wide), type, of_f64.data(), isa);
      for (std::size_t i = 0; i < nans.size(); ++i) {
        CHECK(std::isnan(value_of(type, of_f32[i])));
        CHECK(std::isnan(value_of(type, of_f64[i])));
      }
    }
  }
}

TEST_CASE("every length converts, aligned or not, and nothing beyond it is written") {
  Generator random(5);
  for (std::size_t n = 0; n <= 33; ++n) {
    const std::vector<double> values = random.normals(static_cast<std::int64_t>(n) + 1);
    for (std::size_t shift : {0, 1}) {
      const std::span<const double> from = std::span<const double>(values).subspan(shift, n + 1 - shift);
      for (Isa isa : supported_isas()) {
        std::vector<float> f32(from.size() + 2, 9);
        narrow(from, Storage::f32, f32.data() + 1, isa);
        CHECK(f32.front() == 9);
        CHECK(f32.back() == 9);
        for (Storage type : {Storage::bf16, Storage::f16}) {
          std::vector<std::uint16_t> bits(from.size() + 2, 9);
          narrow(from, type, bits.data() + 1, isa);
          CHECK(bits.front() == 9);
          CHECK(bits.back() == 9);
          std::vector<float> back(from.size() + 2, 9);
          widen(bits.data() + 1, type, std::span<float>(back).subspan(1, from.size()), isa);
          CHECK(back.front() == 9);
          CHECK(back.back() == 9);
          for (std::size_t i = 0; i < from.size(); ++i) {
            CHECK(f32[i + 1] == static_cast<float>(from[i]));
            CHECK(bits[i + 1] == bits_of(type, from[i]));
            CHECK(back[i + 1] == value_of(type, bits[i + 1]));
          }
        }
      }
    }
  }
}
