#include "poslab/rope/rope.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "golden.h"

using namespace poslab;

namespace {

// Of a case of rotate.json that one position for the whole vector describes, its position; else a negative number.
double single_position(const nlohmann::json& position) {
  if (position.is_number()) return position.get<double>();
  const auto parts = position.get<std::vector<double>>();
  return std::count(parts.begin(), parts.end(), parts[0]) == std::ptrdiff_t(parts.size()) ? parts[0] : -1;
}

}  // namespace

TEST_CASE("rotary turns are those of Llama, GPT-NeoX, Phi, Cohere, GLM-4, Gemma and GPT-J") {
  int cases = 0;
  for (const auto& c : golden("rotate.json")) {
    const double position = single_position(c["position"]);
    if (c["rope_parameters"]["rope_type"] != "default" || position < 0) continue;
    CAPTURE(c["name"].get<std::string>());
    CAPTURE(position);
    const auto input = c["input"].get<std::vector<double>>();
    const auto expected = c["output_f64"].get<std::vector<double>>();
    const auto head_dim = static_cast<std::int64_t>(input.size());
    const double share = c["rope_parameters"].value("partial_rotary_factor", 1.0);
    const auto rotary_dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * share);
    const bool half = c["convention"].get<std::string>().rfind("half", 0) == 0;
    const auto inv_freq = rope_inv_freq(rotary_dim, c["rope_parameters"]["rope_theta"].get<double>());

    std::vector<double> output(input.size());
    const double positions[] = {position};
    apply_rope<double>(input, output, 1, head_dim, positions, inv_freq,
                       half ? RopeLayout::half : RopeLayout::interleaved);
    double largest = 0;
    for (double v : input) largest = std::max(largest, std::abs(v));
    const double tolerance = 1e-12 + 4e-16 * position * largest;
    REQUIRE(expected.size() == output.size());
    for (std::size_t i = 0; i < output.size(); ++i) {
      CAPTURE(i);
      CHECK(std::abs(output[i] - expected[i]) <= tolerance);
    }

    // In f32 the f64 result is narrowed once: it may not differ from the nearest float by more than the f64 error.
    std::vector<float> x32(input.begin(), input.end()), out32(input.size());
    apply_rope<float>(x32, out32, 1, head_dim, positions, inv_freq, half ? RopeLayout::half : RopeLayout::interleaved);
    for (std::size_t i = 0; i < out32.size(); ++i) {
      CHECK(std::abs(static_cast<double>(out32[i]) - expected[i]) <= std::abs(expected[i]) * 0x1p-24 + tolerance);
    }
    ++cases;
  }
  CHECK(cases == 46);
}

TEST_CASE("one vector in both layouts") {
  const std::vector<double> x = {1, 2, 3, 4};
  const double positions[] = {1};
  const auto inv_freq = rope_inv_freq(4, 10000);
  std::vector<double> out(4);
  apply_rope<double>(x, out, 1, 4, positions, inv_freq, RopeLayout::interleaved);
  const double interleaved[] = {-1.142640, 1.922076, 2.959851, 4.029800};
  for (int i = 0; i < 4; ++i) CHECK(std::abs(out[i] - interleaved[i]) < 1e-6);
  apply_rope<double>(x, out, 1, 4, positions, inv_freq, RopeLayout::half);
  const double half[] = {-1.984111, 1.959901, 2.462378, 4.019800};
  for (int i = 0; i < 4; ++i) CHECK(std::abs(out[i] - half[i]) < 1e-6);
}

TEST_CASE("heads share positions, and the rest of a head is copied, in place too") {
  // Two heads of three tokens, four channels, of which two turn by quarter turns.
  const std::vector<double> quarter = {std::acos(-1.0) / 2};
  const double positions[] = {0, 1, -1};
  std::vector<double> x(24);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i + 1);
  const std::vector<double> before = x;
  apply_rope<double>(x, x, 2, 4, positions, quarter, RopeLayout::half, 2.0);
  for (std::size_t row = 0; row < 6; ++row) {
    const double a = before[4 * row], b = before[4 * row + 1];
    const double turned[3][2] = {{a, b}, {-b, a}, {b, -a}};
    CHECK(std::abs(x[4 * row] - 2 * turned[row % 3][0]) < 1e-13);
    CHECK(std::abs(x[4 * row + 1] - 2 * turned[row % 3][1]) < 1e-13);
    CHECK(x[4 * row + 2] == before[4 * row + 2]);
    CHECK(x[4 * row + 3] == before[4 * row + 3]);
  }
}

TEST_CASE("frequencies: 2i/d in the exponent, i from 0, and the sign negative") {
  const auto inv_freq = rope_inv_freq(8, 10000);
  const double expected[] = {1, 0.1, 0.01, 0.001};
  REQUIRE(inv_freq.size() == 4);
  for (int i = 0; i < 4; ++i) CHECK(std::abs(inv_freq[i] - expected[i]) < 1e-15);
}

TEST_CASE("shapes and numbers that cannot be are refused") {
  for (std::int64_t dim : {-2, 0, 1, 3, 7}) CHECK_THROWS_AS(rope_inv_freq(dim, 10000), std::invalid_argument);
  for (double theta : {0.0, -1.0, std::nan(""), HUGE_VAL})
    CHECK_THROWS_AS(rope_inv_freq(4, theta), std::invalid_argument);
  std::vector<double> x(8), out(8);
  const double positions[] = {0, 1};
  const auto inv_freq = rope_inv_freq(4, 10000);
  const auto apply = [&](std::int64_t n_heads, std::int64_t head_dim) {
    apply_rope<double>(x, out, n_heads, head_dim, positions, inv_freq, RopeLayout::half);
  };
  CHECK_NOTHROW(apply(1, 4));
  CHECK_THROWS_AS(apply(2, 4), std::invalid_argument);  // 16 values needed
  CHECK_THROWS_AS(apply(2, 2), std::invalid_argument);  // two pairs do not fit in two channels
  CHECK_THROWS_AS(apply(-1, -4), std::invalid_argument);
  out.resize(7);
  CHECK_THROWS_AS(apply(1, 4), std::invalid_argument);
}
