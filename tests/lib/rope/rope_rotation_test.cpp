#include "poslab/rope/rope_rotation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "golden.h"
#include "poslab/core/narrow.h"
#include "poslab/core/random.h"

using namespace poslab;

namespace {

std::vector<std::byte> stored(DType dtype, const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * bytes_per_element(dtype));
  narrow_to_bytes(dtype, values, bytes.data());
  return bytes;
}

std::vector<double> values_of(DType dtype, const std::vector<std::byte>& bytes) {
  std::vector<double> values(bytes.size() / bytes_per_element(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::f32) {
      float v;
      std::memcpy(&v, bytes.data() + i * sizeof v, sizeof v);
      values[i] = static_cast<double>(v);
    } else {
      std::uint16_t v;
      std::memcpy(&v, bytes.data() + i * sizeof v, sizeof v);
      values[i] = static_cast<double>(dtype == DType::bf16 ? bf16_from_bits(v) : f16_from_bits(v));
    }
  }
  return values;
}

// Of a stored result: the element type's rounding, and that of f32 arithmetic on values of this size.
double tolerance(DType dtype, double value, double largest) {
  const double unit = dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0;
  return std::abs(value) * unit + 4 * largest * 0x1p-24 + (dtype == DType::f16 ? 0x1p-25 : 0);
}

}  // namespace

TEST_CASE("tensors turn as in double, in every type, layout and direction, on any number of threads") {
  constexpr std::int64_t n_heads = 3, seq_len = 300, head_dim = 40;
  Generator random(7);
  const std::vector<double> values = random.normals(n_heads * seq_len * head_dim);
  std::vector<double> positions = random.normals(seq_len, 1000);
  for (std::int64_t rotary_dim : {40, 22}) {
    const std::vector<double> inv_freq = rope_inv_freq(rotary_dim, 10000);
    const RopeTable table = rope_table(positions, inv_freq, 1.25, 2);
    for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const std::vector<std::byte> x = stored(dtype, values);
      const std::vector<double> exact_x = values_of(dtype, x);
      for (RopeLayout layout : {RopeLayout::half, RopeLayout::interleaved}) {
        for (bool inverse : {false, true}) {
          std::vector<double> expected(exact_x.size());
          std::vector<double> turned = positions;
          if (inverse) {
            for (double& p : turned) p = -p;
          }
          apply_rope<double>(exact_x, expected, n_heads, head_dim, turned, inv_freq, layout, 1.25);
          const RopeTensor shape{n_heads, seq_len, head_dim, dtype, layout, inverse};
          std::vector<std::byte> out(x.size());
          rotate(shape, x, out, table, 1);
          const std::vector<double> got = values_of(dtype, out);
          for (std::size_t i = 0; i < got.size(); ++i) {
            REQUIRE(std::abs(got[i] - expected[i]) <= tolerance(dtype, expected[i], 6));
          }
          std::vector<std::byte> other(x.size()), in_place = x;
          rotate(shape, x, other, table, 3);
          CHECK(other == out);
          rotate(shape, x, other, positions, inv_freq, 1.25, 2);
          CHECK(other == out);
          rotate(shape, in_place, in_place, table, 2);
          CHECK(in_place == out);
        }
      }
    }
  }
}

TEST_CASE("turning there and back gives the gradient's identity") {
  // The transpose of the turn is its inverse: <R x, y> = <x, R' y>.
  constexpr std::int64_t head_dim = 16, seq_len = 5;
  Generator random(8);
  const std::vector<double> x = random.normals(head_dim * seq_len), y = random.normals(head_dim * seq_len);
  const std::vector<double> positions = {0, 1, 77, 1000, 123456}, inv_freq = rope_inv_freq(head_dim, 10000);
  const RopeTable table = rope_table(positions, inv_freq);
  for (RopeLayout layout : {RopeLayout::half, RopeLayout::interleaved}) {
    std::vector<std::byte> rx(x.size() * 4), ry(y.size() * 4);
    rotate({1, seq_len, head_dim, DType::f32, layout, false}, stored(DType::f32, x), rx, table, 1);
    rotate({1, seq_len, head_dim, DType::f32, layout, true}, stored(DType::f32, y), ry, table, 1);
    const std::vector<double> turned_x = values_of(DType::f32, rx), turned_y = values_of(DType::f32, ry);
    double left = 0, right = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      left += turned_x[i] * y[i];
      right += x[i] * turned_y[i];
    }
    CHECK(left == doctest::Approx(right).epsilon(1e-6));
  }
}

TEST_CASE("tensors turn as Llama and its relatives turn theirs") {
  int cases = 0;
  for (const auto& c : golden("rotate.json")) {
    if (c["rope_parameters"]["rope_type"] != "default" || !c["position"].is_number()) continue;
    const auto input = c["input"].get<std::vector<double>>();
    const auto expected = c["output_f64"].get<std::vector<double>>();
    const double share = c["rope_parameters"].value("partial_rotary_factor", 1.0);
    const auto rotary_dim = static_cast<std::int64_t>(static_cast<double>(input.size()) * share);
    const bool half = c["convention"].get<std::string>().rfind("half", 0) == 0;
    const double position = c["position"].get<double>();
    const std::vector<double> inv_freq = rope_inv_freq(rotary_dim, c["rope_parameters"]["rope_theta"].get<double>());
    std::vector<std::byte> out(input.size() * 4);
    const RopeTensor shape{1, 1, static_cast<std::int64_t>(input.size()), DType::f32,
                           half ? RopeLayout::half : RopeLayout::interleaved};
    rotate(shape, stored(DType::f32, input), out, std::vector<double>{position}, inv_freq, 1, 1);
    double largest = 0;
    for (double v : input) largest = std::max(largest, std::abs(v));
    const std::vector<double> got = values_of(DType::f32, out);
    for (std::size_t i = 0; i < got.size(); ++i) {
      CHECK(std::abs(got[i] - expected[i]) <= tolerance(DType::f32, expected[i], 2 * largest) + 1e-15 * position);
    }
    ++cases;
  }
  CHECK(cases > 20);
}

TEST_CASE("tensors of wrong shapes are refused") {
  const std::vector<double> inv_freq = rope_inv_freq(8, 10000), positions = {0, 1};
  const RopeTable table = rope_table(positions, inv_freq);
  std::vector<std::byte> bytes(2 * 8 * 4), short_bytes(2 * 8 * 4 - 1);
  CHECK_NOTHROW(rotate({1, 2, 8}, bytes, bytes, table, 1));
  CHECK_THROWS_WITH_AS(rotate({1, 2, 8}, bytes, short_bytes, table, 1), doctest::Contains("63"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(rotate({1, 3, 8}, bytes, bytes, table, 1), doctest::Contains("2 positions"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(rotate({1, 2, 7}, bytes, bytes, table, 1), doctest::Contains("do not fit"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(rotate({1, 2, 4, DType::f64}, bytes, bytes, rope_table(positions, rope_inv_freq(4, 1e4)), 1),
                       doctest::Contains("f64"), std::invalid_argument);
}
