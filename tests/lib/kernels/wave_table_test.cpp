#include "poslab/kernels/wave_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "golden.h"
#include "poslab/core/element_type.h"
#include "poslab/rope/rope.h"

using namespace poslab;

namespace {

constexpr WaveLayout separate = WaveLayout::separate, interleaved = WaveLayout::interleaved;

// The table's bytes with a margin of guard bytes before and after, at `shift` bytes from a cache line.
struct Buffer {
  Buffer(std::size_t size, std::size_t shift) : bytes(size + 3 * 64 + shift, 0xa5) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    start = 128 - address % 64 + shift;
    length = size;
  }
  unsigned char* data() { return bytes.data() + start; }
  bool guards_intact() const {
    return std::all_of(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(start),
                       [](unsigned char b) { return b == 0xa5; }) &&
           std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(start + length), bytes.end(),
                       [](unsigned char b) { return b == 0xa5; });
  }
  std::vector<unsigned char> content() const {
    return {bytes.begin() + static_cast<std::ptrdiff_t>(start),
            bytes.begin() + static_cast<std::ptrdiff_t>(start + length)};
  }
  std::vector<unsigned char> bytes;
  std::size_t start = 0, length = 0;
};

// Rows of sines and cosines, interleaved or in two halves of a row.
std::vector<unsigned char> table(const WaveTable& waves, std::int64_t first, std::int64_t count, Storage type,
                                 WaveLayout layout, bool stream, std::size_t shift = 0) {
  const std::size_t n = waves.n_pairs();
  Buffer buffer(static_cast<std::size_t>(count) * 2 * n * storage_bytes(type), shift);
  WaveTarget target{type, layout, buffer.data(), buffer.data() + n * storage_bytes(type), 2 * n, stream};
  waves.fill(first, count, target);
  CHECK(buffer.guards_intact());
  return buffer.content();
}

double value(const std::vector<unsigned char>& bytes, Storage type, std::size_t index) {
  if (type == Storage::f32) {
    float v;
    std::memcpy(&v, bytes.data() + index * sizeof v, sizeof v);
    return static_cast<double>(v);
  }
  std::uint16_t bits;
  std::memcpy(&bits, bytes.data() + index * sizeof bits, sizeof bits);
  return static_cast<double>(type == Storage::bf16 ? bf16_from_bits(bits) : f16_from_bits(bits));
}

// Half a unit in the last place of the element type at v.
double half_ulp(Storage type, double v) {
  const int digits = type == Storage::f32 ? 24 : type == Storage::bf16 ? 8 : 11;
  const int lowest = type == Storage::f16 ? -24 : -149;
  return std::ldexp(0.5, std::max(std::ilogb(std::max(std::abs(v), 1e-300)) + 1 - digits, lowest));
}

}  // namespace

TEST_CASE("tables of waves give the exact f32 values of golden/sin_table_exact.json") {
  const auto exact = golden("sin_table_exact.json");
  for (const auto& [base, set] : exact["bases"].items()) {
    const std::vector<double> inv_freq = rope_inv_freq(128, std::stod(base));
    const WaveTable waves(inv_freq);
    for (std::int64_t position : exact["positions"]) {
      const auto key = std::to_string(position);
      // From the row alone, and as part of a run that begins before it.
      for (std::int64_t before : {0, 5}) {
        const auto bytes = table(waves, position - before, before + 3, Storage::f32, separate, false);
        for (std::size_t i = 0; i < 64; ++i) {
          const std::size_t at = static_cast<std::size_t>(before) * 128 + i;
          CHECK(value(bytes, Storage::f32, at) == static_cast<double>(set["sin_f32"][key][i].get<float>()));
          CHECK(value(bytes, Storage::f32, at + 64) == static_cast<double>(set["cos_f32"][key][i].get<float>()));
        }
      }
      float cosines[64], sines[64];
      wave_row(static_cast<double>(position), inv_freq, 1, cosines, sines);
      for (std::size_t i = 0; i < 64; ++i) {
        CHECK(sines[i] == set["sin_f32"][key][i].get<float>());
        CHECK(cosines[i] == set["cos_f32"][key][i].get<float>());
      }
    }
  }
}

TEST_CASE("every width, layout and element type is right, aligned or not, and alike on every instruction set") {
  constexpr std::int64_t first = 1000037, count = 70;  // begins and ends within blocks
  for (std::size_t n = 0; n <= 33; ++n) {
    std::vector<double> inv_freq;
    for (std::size_t i = 0; i < n; ++i) inv_freq.push_back(std::pow(10000.0, -static_cast<double>(i) / 33));
    for (Storage type : {Storage::f32, Storage::bf16, Storage::f16}) {
      for (WaveLayout layout : {separate, interleaved}) {
        const auto expected = table(WaveTable(inv_freq, 1, Isa::scalar), first, count, type, layout, false);
        for (std::size_t r = 0; r < static_cast<std::size_t>(count); ++r) {
          const double position = static_cast<double>(first) + static_cast<double>(r);
          for (std::size_t i = 0; i < n; ++i) {
            const double angle = position * inv_freq[i];
            const std::size_t at = r * 2 * n + (layout == interleaved ? 2 * i : i);
            const double sine = value(expected, type, at);
            const double cosine = value(expected, type, at + (layout == interleaved ? 1 : n));
            const double doubt = 4e-15 + 2.3e-16 * angle;
            REQUIRE(std::abs(sine - std::sin(angle)) <= half_ulp(type, std::sin(angle)) + doubt);
            REQUIRE(std::abs(cosine - std::cos(angle)) <= half_ulp(type, std::cos(angle)) + doubt);
          }
        }
        for (Isa isa : supported_isas()) {
          const WaveTable waves(inv_freq, 1, isa);
          for (std::size_t shift : {0, 2, 12}) {
            CHECK(table(waves, first, count, type, layout, true, shift) == expected);
          }
        }
      }
    }
  }
}

TEST_CASE("single rows of every width are right, and alike on every instruction set") {
  for (std::size_t n = 0; n <= 33; ++n) {
    std::vector<double> inv_freq;
    for (std::size_t i = 0; i < n; ++i) inv_freq.push_back(std::pow(10000.0, -static_cast<double>(i) / 33));
    for (double position : {-7.25, 4096.5, 1e7, -4.9e7, 1e12}) {
      std::vector<float> expected_cosines(n), expected_sines(n);
      wave_row(position, inv_freq, 1.5, expected_cosines.data(), expected_sines.data(), Isa::scalar);
      for (std::size_t i = 0; i < n; ++i) {
        const double cosine = 1.5 * std::cos(position * inv_freq[i]), sine = 1.5 * std::sin(position * inv_freq[i]);
        CHECK(std::abs(static_cast<double>(expected_cosines[i]) - cosine) <= half_ulp(Storage::f32, cosine) + 1e-14);
        CHECK(std::abs(static_cast<double>(expected_sines[i]) - sine) <= half_ulp(Storage::f32, sine) + 1e-14);
      }
      std::vector<double> wide_cosines(n + 1, 7), wide_sines(n + 1, 7);
      wave_row(position, inv_freq, 1.5, wide_cosines.data(), wide_sines.data());
      CHECK(wide_cosines[n] == 7);
      CHECK(wide_sines[n] == 7);
      for (std::size_t i = 0; i < n; ++i) {
        CHECK(std::abs(wide_cosines[i] - 1.5 * std::cos(position * inv_freq[i])) < 1e-15);
        CHECK(std::abs(wide_sines[i] - 1.5 * std::sin(position * inv_freq[i])) < 1e-15);
        CHECK(static_cast<float>(wide_cosines[i]) == expected_cosines[i]);
        CHECK(static_cast<float>(wide_sines[i]) == expected_sines[i]);
      }
      for (Isa isa : supported_isas()) {
        std::vector<float> cosines(n + 1, 7), sines(n + 1, 7);
        wave_row(position, inv_freq, 1.5, cosines.data(), sines.data(), isa);
        CHECK(cosines[n] == 7);
        CHECK(sines[n] == 7);
        CHECK(std::equal(expected_cosines.begin(), expected_cosines.end(), cosines.begin()));
        CHECK(std::equal(expected_sines.begin(), expected_sines.end(), sines.begin()));
      }
    }
  }
}

TEST_CASE("a run may be cut anywhere, and streaming changes nothing") {
  const WaveTable waves(rope_inv_freq(64, 10000), 1.19);
  const auto whole = table(waves, -100, 300, Storage::f32, interleaved, true);
  std::vector<unsigned char> pieces;
  for (std::int64_t first = -100, size = 1; first < 200; first += size, size = size % 90 + 13) {
    const auto piece = table(waves, first, std::min<std::int64_t>(size, 200 - first), Storage::f32, interleaved, false);
    pieces.insert(pieces.end(), piece.begin(), piece.end());
  }
  CHECK(pieces == whole);
  CHECK(value(whole, Storage::f32, 100 * 64 + 1) == static_cast<double>(1.19f));  // the factor, at position 0
}

TEST_CASE("angles beyond the vector sincos come from libm") {
  const std::vector<double> inv_freq = {1.0, 0.5, 3e-9};
  const WaveTable waves(inv_freq);
  const std::int64_t position = (std::int64_t{1} << 40) + 3;
  const auto bytes = table(waves, position, 1, Storage::f32, separate, false);
  float cosines[3], sines[3];
  wave_row(static_cast<double>(position), inv_freq, 1, cosines, sines);
  for (std::size_t i = 0; i < 3; ++i) {
    const double angle = static_cast<double>(position) * inv_freq[i];
    CHECK(std::abs(value(bytes, Storage::f32, i) - std::sin(angle)) < 1e-3);  // the anchor is 3 rows before
    CHECK(static_cast<double>(sines[i]) == doctest::Approx(std::sin(angle)).epsilon(1e-7));
    CHECK(static_cast<double>(cosines[i]) == doctest::Approx(std::cos(angle)).epsilon(1e-7));
  }
}
