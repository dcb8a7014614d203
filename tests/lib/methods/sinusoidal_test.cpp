#include "poslab/methods/sinusoidal.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "golden.h"
#include "poslab/core/narrow.h"

using namespace poslab;

namespace {

std::vector<double> rows(const SinusoidalTable& table, std::int64_t first, std::int64_t count) {
  std::vector<double> out(static_cast<std::size_t>(count * table.d_model()));
  table.fill(first, out);
  return out;
}

void check_frequencies(SinusoidalVariant variant, std::int64_t d_model, const std::vector<double>& expected) {
  const SinusoidalTable table(d_model, 10000, variant);
  REQUIRE(table.frequencies().size() == expected.size());
  for (std::size_t c = 0; c < expected.size(); ++c) {
    CHECK(table.frequencies()[c] == doctest::Approx(expected[c]).epsilon(1e-6));
  }
}

}  // namespace

TEST_CASE("the lesson's table, to the last bit") {
  const auto lesson = golden("lesson_table.json");
  const auto values = rows(SinusoidalTable(32), 0, 64);
  std::size_t at = 0;
  for (const auto& row : lesson["table_glibc"]) {
    for (const auto& value : row) CHECK(values[at++] == value.get<double>());
  }
  CHECK(at == values.size());

  const auto four = rows(SinusoidalTable(4), 0, 3);
  at = 0;
  const auto lesson_rows = golden("lesson_four_values.json")["rows"];
  for (const auto& row : lesson_rows) {
    for (const auto& value : row) CHECK(std::abs(four[at++] - value.get<double>()) < 1e-15);
  }
}

TEST_CASE("any range of rows is the same rows") {
  const SinusoidalTable table(7);
  const auto all = rows(table, 0, 50);
  const auto part = rows(table, 20, 10);
  CHECK(part == std::vector<double>(all.begin() + 140, all.begin() + 210));
  std::vector<double> crooked(8);
  CHECK_THROWS_AS(table.fill(0, crooked), std::invalid_argument);
}

TEST_CASE("similarity by formula is the product of rows, and the lesson's") {
  const SinusoidalTable table(32);
  REQUIRE(table.pair_frequencies().size() == 16);
  const auto lesson = golden("lesson_table.json");
  for (std::int64_t p = 0; p < 64; ++p) {
    const double similarity = cosine_sum(table.pair_frequencies(), static_cast<double>(p - 20));
    CHECK(std::abs(similarity - lesson["sim_exact_rounded"][static_cast<std::size_t>(p)].get<double>()) < 1e-13);
  }
  CHECK(cosine_sum(table.pair_frequencies(), 0) == 16);
}

TEST_CASE("sinusoidal variants have the frequencies that people report") {
  using enum SinusoidalVariant;
  check_frequencies(paper, 4, {1, 1, 0.01, 0.01});
  check_frequencies(paper, 8, {1, 1, 0.1, 0.1, 0.01, 0.01, 0.001, 0.001});
  check_frequencies(halves, 8, {1, 0.1, 0.01, 0.001, 1, 0.1, 0.01, 0.001});
  check_frequencies(tensor2tensor, 8, {1, 0.0464159, 0.00215443, 0.0001, 1, 0.0464159, 0.00215443, 0.0001});
  check_frequencies(channel_exponent, 4, {1, 0.1, 0.01, 0.001});
  check_frequencies(twice_channel_exponent, 4, {1, 0.01, 1e-4, 1e-6});
  check_frequencies(twice_channel_exponent, 8, {1, 0.1, 0.01, 0.001, 1e-4, 1e-5, 1e-6, 1e-7});
  CHECK(1 / SinusoidalTable(512).frequencies().back() == doctest::Approx(9646.6).epsilon(1e-5));
  CHECK(1 / SinusoidalTable(512, 10000, tensor2tensor).frequencies().back() == doctest::Approx(10000));
}

TEST_CASE("sinusoidal variants put sines and cosines where their formula says") {
  const auto values = [](SinusoidalVariant variant, std::int64_t d_model) {
    return rows(SinusoidalTable(d_model, 10000, variant), 3, 1);
  };
  const auto close = [](double a, double b) { return std::abs(a - b) < 1e-15; };
  const auto paper = values(SinusoidalVariant::paper, 4);
  CHECK(close(paper[2], std::sin(0.03)));
  CHECK(close(paper[3], std::cos(0.03)));
  const auto halves = values(SinusoidalVariant::halves, 4);
  CHECK(close(halves[1], std::sin(0.03)));
  CHECK(close(halves[2], std::cos(3)));
  const auto tensor2tensor = values(SinusoidalVariant::tensor2tensor, 4);
  CHECK(close(tensor2tensor[1], std::sin(3e-4)));
  CHECK(close(tensor2tensor[3], std::cos(3e-4)));
  const auto mistake = values(SinusoidalVariant::channel_exponent, 4);
  CHECK(close(mistake[1], std::cos(0.3)));
  CHECK(close(mistake[2], std::sin(0.03)));
}

TEST_CASE("odd d_model gives the sines one channel more, and tensor2tensor a zero") {
  for (std::int64_t d : {1, 5, 29}) {
    for (SinusoidalVariant variant :
         {SinusoidalVariant::paper, SinusoidalVariant::halves, SinusoidalVariant::channel_exponent}) {
      const SinusoidalTable table(d, 10000, variant);
      std::int64_t cosines = 0;
      for (char cosine : table.cosines()) cosines += cosine;
      CHECK(cosines == d / 2);
      CHECK(table.pair_frequencies().empty());
    }
    const SinusoidalTable padded(d, 10000, SinusoidalVariant::tensor2tensor);
    CHECK(rows(padded, 9, 1).back() == 0);
    CHECK(static_cast<std::int64_t>(padded.pair_frequencies().size()) == d / 2);
  }
  // The waves of d = 5 are those of the paper's formula with d = 5.
  CHECK(SinusoidalTable(5).frequencies()[4] == doctest::Approx(std::pow(10000, -0.8)));
}

TEST_CASE("sinusoidal tables refuse what has no waves") {
  CHECK_THROWS_WITH(SinusoidalTable(0), "[SinusoidalTable] d_model must be 1 .. 16777216 but got 0.");
  CHECK_THROWS_AS(SinusoidalTable(4, 0.5), std::invalid_argument);
  CHECK_THROWS_AS(SinusoidalTable(4, std::nan("")), std::invalid_argument);
  CHECK_THROWS_AS(SinusoidalTable(4, std::numeric_limits<double>::infinity()), std::invalid_argument);
}

TEST_CASE("narrowed rows are the double rows rounded once, in every variant and type") {
  constexpr std::int64_t first = 99990, count = 130;
  for (SinusoidalVariant variant :
       {SinusoidalVariant::paper, SinusoidalVariant::halves, SinusoidalVariant::tensor2tensor,
        SinusoidalVariant::channel_exponent, SinusoidalVariant::twice_channel_exponent}) {
    for (std::int64_t d_model : {1, 2, 3, 6, 33, 64}) {
      const SinusoidalTable table(d_model, 10000, variant);
      const std::size_t size = static_cast<std::size_t>(count * d_model);
      std::vector<double> rows(size);
      table.fill(first, rows);
      std::vector<std::byte> f64(size * 8), f32(size * 4);
      table.fill_narrowed(first, count, DType::f64, f64.data());
      CHECK(std::memcmp(f64.data(), rows.data(), f64.size()) == 0);
      table.fill_narrowed(first, count, DType::f32, f32.data());
      for (std::size_t i = 0; i < size; ++i) {
        float value;
        std::memcpy(&value, f32.data() + 4 * i, sizeof value);
        REQUIRE(std::abs(static_cast<double>(value) - rows[i]) <= std::abs(rows[i]) * 0x1p-24 + 4e-16 * 100120);
      }
      // One value of thousands may lie within 1e-14 of halfway.
      for (DType dtype : {DType::bf16, DType::f16}) {
        std::vector<std::byte> expected(size * 2), got(size * 2);
        narrow_to_bytes(dtype, rows, expected.data());
        table.fill_narrowed(first, count, dtype, got.data());
        std::size_t differing = 0;
        for (std::size_t i = 0; i < got.size(); i += 2)
          differing += got[i] != expected[i] || got[i + 1] != expected[i + 1];
        CHECK(differing <= 1);
      }
    }
  }
}
