#include "poslab/rope/numeric_profile.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string>

#include "golden.h"
#include "poslab/rope/rope.h"

namespace poslab {
namespace {

ProfiledRope rope(const std::string& profile, std::int64_t head_dim = 128, double theta = 10000) {
  return ProfiledRope(numeric_profile(profile), head_dim, theta);
}

double angle_error(const ProfiledRope& r, const ExactRope& exact, double position, std::int64_t pair) {
  return static_cast<double>(std::abs(r.angle(position, pair) - exact.angle(position, pair)));
}

double largest_angle_error(const ProfiledRope& r, const ExactRope& exact, double position) {
  double largest = 0;
  for (std::int64_t i = 0; i < r.n_pairs(); ++i) largest = std::max(largest, angle_error(r, exact, position, i));
  return largest;
}

}  // namespace

TEST_CASE("the exact reference is the correctly rounded one") {
  const auto table = golden("sin_table_exact.json");
  int compared = 0;
  for (const auto& [base, entry] : table.at("bases").items()) {
    const ExactRope exact(table.at("d").get<std::int64_t>(), std::stod(base));
    for (const double position : table.at("positions")) {
      const std::string p = std::to_string(static_cast<std::int64_t>(position));
      for (std::int64_t i = 0; i < exact.n_pairs(); ++i) {
        const long double angle = exact.angle(position, i);
        const double wanted_cos = entry.at("cos_f64").at(p).at(static_cast<std::size_t>(i));
        const double wanted_sin = entry.at("sin_f64").at(p).at(static_cast<std::size_t>(i));
        // Half a unit of the golden value's last place, and the stated error of the angle.
        const double tolerance = 0x1p-54 + static_cast<double>(angle) * 0x1p-62;
        CHECK(std::abs(static_cast<double>(std::cos(angle) - wanted_cos)) <= tolerance);
        CHECK(std::abs(static_cast<double>(std::sin(angle) - wanted_sin)) <= tolerance);
        ++compared;
      }
    }
  }
  CHECK(compared >= 12 * 64);
}

TEST_CASE("every word is a profile, and words are told once") {
  std::set<std::string> words;
  for (const ProfileWord& entry : profile_words()) {
    CHECK_NOTHROW(numeric_profile(entry.word));
    CHECK(words.insert(entry.word).second);
    CHECK(entry.meaning.find('{') == std::string::npos);
  }
  CHECK(words.count("hf_f32") == 1);
  CHECK(words.count("f16_position") == 1);
  CHECK(profile_meaning("f64+bf16_vectors") ==
        "every stage in f64; queries and keys alone in bf16, rounded before and after a finer rotation");
}

TEST_CASE("casts change their own stages and keep the rest") {
  const NumericProfile cast = numeric_profile("f64+bf16_table");
  CHECK(cast.frequency == FrequencyMethod::f64);
  CHECK(cast.trig == DType::f64);
  CHECK(cast.table == DType::bf16);
  CHECK(cast.vectors == DType::bf16);
  const NumericProfile both = numeric_profile("bf16_position+f16_inv_freq");
  CHECK(both.frequency == FrequencyMethod::f32);
  CHECK(both.position == DType::bf16);
  CHECK(both.inv_freq == DType::f16);
  CHECK(both.table == DType::f16);  // the later cast wins
  CHECK(numeric_profile("f32_table+bf16_vectors").rotation == DType::f32);
  CHECK(numeric_profile("ggml_f32+bf16_position").position == DType::bf16);
}

TEST_CASE("profiles that make no sense are refused") {
  for (const char* text : {"", "f63", "bf16", "bf16_tables", "f64+", "+f64", "f64++bf16_table", "f64,bf16_table"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(numeric_profile(text), doctest::Contains("unknown profile"), std::invalid_argument);
  }
  CHECK_THROWS_WITH_AS(numeric_profile("bf16_table+f64"), doctest::Contains("before the casts"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(numeric_profile("ggml_f32+bf16_inv_freq"), doctest::Contains("has none"), std::invalid_argument);
  CHECK_THROWS_AS(numeric_profile("ggml_f32+f16_all"), std::invalid_argument);
  CHECK_THROWS_AS(rope("f64", 7), std::invalid_argument);
  CHECK_THROWS_AS(rope("f64", 8, 0), std::invalid_argument);
  CHECK_THROWS_AS(ProfiledRope(numeric_profile("ggml_f32"), {1.0, 0.1}), std::invalid_argument);
}

TEST_CASE("frequencies of a scaling method are rounded like the base's own") {
  const ProfiledRope own = rope("f32_inv_freq+bf16_inv_freq");
  const ProfiledRope given(numeric_profile("f32_inv_freq+bf16_inv_freq"), rope_inv_freq(128, 10000));
  REQUIRE(given.n_pairs() == 64);
  for (std::int64_t i = 0; i < 64; ++i) CHECK(given.angle(12345, i) == own.angle(12345, i));
}

TEST_CASE("a 16-bit cast rounds the f32 quantity, not the exact one") {
  // Just above the middle of two bf16 values, by less than f32 can tell: the middle goes to the even one below.
  const double above_middle = 1 + 0x1p-8 + 0x1p-40;
  CHECK(ProfiledRope(numeric_profile("bf16_inv_freq"), {above_middle}).angle(1, 0) == 1);
  CHECK(ProfiledRope(numeric_profile("f64+bf16_inv_freq"), {above_middle}).angle(1, 0) == 1 + 0x1p-7);
  const double third = std::nextafter(static_cast<float>((2 + 0x1p-7) / 3), 1.0F);  // three of them exceed the middle
  REQUIRE(3 * third > 2 + 0x1p-7);
  REQUIRE(static_cast<float>(3 * third) == 2 + 0x1p-7);
  CHECK(ProfiledRope(numeric_profile("bf16_angle"), {third}).angle(3, 0) == 2);
  CHECK(ProfiledRope(numeric_profile("f64+bf16_angle"), {third}).angle(3, 0) == 2 + 0x1p-6);
}

TEST_CASE("ggml's running product gives the rotations that ggml gives") {
  const auto file = golden("ggml_rope.json");
  int cases = 0;
  for (const auto& c : file.at("cases")) {
    const bool plain = c["ext_factor"] == 0 && c["freq_scale"] == 1 && c["attn_factor"] == 1 && !c["back"] &&
                       c["freq_factors"].empty() && (c["mode"] == 0 || c["mode"] == 2);
    if (!plain) continue;
    ++cases;
    const auto layout = c["mode"] == 0 ? RopeLayout::interleaved : RopeLayout::half;
    const std::int64_t n_dims = c["n_dims"];
    const std::size_t head_dim = c["head_dim"];
    const std::size_t row = head_dim * c["n_head"].get<std::size_t>();
    const ProfiledRope r = rope("ggml_f32", n_dims, c["freq_base"]);
    int wrong = 0;
    for (std::size_t t = 0; t < c["positions"].size(); ++t) {
      for (std::size_t start = t * row; start < (t + 1) * row; start += head_dim) {
        for (std::int64_t i = 0; i < n_dims / 2; ++i) {
          const auto [a, b] = rope_pair_channels(layout, n_dims, i);
          const CosSin turned = r.turn(r.angle(c["positions"][t], i));
          const float x = c["input"][start + a], y = c["input"][start + b];
          const float cos = static_cast<float>(turned.cos), sin = static_cast<float>(turned.sin);
          // ggml's compiler may fuse a product into the sum, hence a unit in the last place of the products.
          const float tolerance = 1.2e-7F * (std::abs(x) + std::abs(y));
          wrong += std::abs(x * cos - y * sin - c["output"][start + a].get<float>()) > tolerance;
          wrong += std::abs(x * sin + y * cos - c["output"][start + b].get<float>()) > tolerance;
        }
      }
    }
    CHECK(wrong == 0);
  }
  CHECK(cases >= 10);
}

// What practitioners reported, with the figures recomputed by the reports' collector (J01 to J06).
TEST_CASE("J01: tables built in 16 bits lose whole radians") {
  const ExactRope exact(32, 10000);
  CHECK(static_cast<double>(exact.angle(1857, 1)) == doctest::Approx(1044.2678).epsilon(1e-7));
  CHECK(rope("f16_all", 32).angle(1857, 1) == 1045);
  const auto worst_cos = [&](const std::string& profile) {
    const ProfiledRope r = rope(profile, 32);
    double worst = 0;
    for (int p = 0; p < 2048; ++p) {
      for (std::int64_t i = 0; i < r.n_pairs(); ++i) {
        const auto error = std::abs(r.turn(r.angle(p, i)).cos - std::cos(exact.angle(p, i)));
        worst = std::max(worst, static_cast<double>(error));
      }
    }
    return worst;
  };
  CHECK(worst_cos("f16_all") == doctest::Approx(0.782).epsilon(1e-3));
  CHECK(worst_cos("bf16_all") == doctest::Approx(1.997).epsilon(1e-3));
}

TEST_CASE("J03: with inv_freq in bf16 the phase error grows with the position") {
  const ExactRope exact(128, 10000);
  const ProfiledRope r = rope("bf16_inv_freq");
  const auto worst = [&](double p) { return largest_angle_error(r, exact, p); };
  CHECK(worst(511) == doctest::Approx(0.625).epsilon(1e-3));
  CHECK(worst(2047) == doctest::Approx(2.504).epsilon(1e-3));
  CHECK(worst(4095) == doctest::Approx(5.009).epsilon(1e-3));
  CHECK(angle_error(r, exact, 4095, 1) == worst(4095));
}

TEST_CASE("J04: position 15962 becomes 15936 in bf16") {
  const ProfiledRope r = rope("bf16_position");
  CHECK(r.angle(15962, 0) == 15936);
  CHECK(r.turn(r.angle(15962, 0)).cos == doctest::Approx(-0.267950).epsilon(0x1p-8));
  CHECK(rope("f64").turn(rope("f64").angle(15962, 0)).cos == doctest::Approx(-0.908016).epsilon(1e-5));
}

TEST_CASE("J06: f32 angles are about a thousandth of a radian off at 32767") {
  const double worst = largest_angle_error(rope("hf_f32"), ExactRope(128, 10000), 32767);
  CHECK(worst > 5e-4);
  CHECK(worst < 2e-3);
}

TEST_CASE("a table can be read row by row") {
  const ProfiledRope r = rope("f32_table", 8);
  std::vector<double> cos(4), sin(4);
  r.cos_sin(5, cos, sin);
  for (std::size_t i = 0; i < 4; ++i) {
    const double angle = 5 * std::pow(10000.0, -static_cast<double>(i) / 4);
    CHECK(cos[i] == static_cast<double>(static_cast<float>(std::cos(angle))));
    CHECK(sin[i] == static_cast<double>(static_cast<float>(std::sin(angle))));
  }
}

}  // namespace poslab
