#include "poslab/rope/scaling.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <utility>
#include <vector>

#include "golden.h"
#include "poslab/core/random.h"
#include "poslab/rope/hf_f32.h"
#include "poslab/rope/rope.h"
#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scalings.h"

using namespace poslab;
using nlohmann::json;

namespace {

std::optional<double> number(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::vector<double> numbers(const json& object, const char* key) {
  return object.contains(key) ? object.at(key).get<std::vector<double>>() : std::vector<double>{};
}

// A golden case's parameters as upstream resolved them; reading configs is hf_config's and tested there.
RopeScaling resolved(const json& config, const json& parameters, std::size_t pairs) {
  RopeScaling s;
  s.rope_type = from_word<RopeType>(parameters.at("rope_type").get<std::string>());
  s.rope_theta = parameters.at("rope_theta").get<double>();
  s.rotary_dim = s.head_dim = static_cast<std::int64_t>(2 * pairs);
  s.partial_rotary_factor = number(parameters, "partial_rotary_factor").value_or(1);
  s.factor = number(parameters, "factor");
  s.original_max_position_embeddings = number(parameters, "original_max_position_embeddings");
  s.max_position_embeddings = number(config, "max_position_embeddings");
  s.attention_factor = number(parameters, "attention_factor");
  s.beta_fast = number(parameters, "beta_fast").value_or(32);
  s.beta_slow = number(parameters, "beta_slow").value_or(1);
  s.mscale = number(parameters, "mscale");
  s.mscale_all_dim = number(parameters, "mscale_all_dim");
  // Upstream reads truncate from the outer dict only.
  const bool nested = config.contains("rope_parameters") && config["rope_parameters"].contains("full_attention");
  s.truncate = nested || parameters.value("truncate", true);
  s.low_freq_factor = number(parameters, "low_freq_factor").value_or(1);
  s.high_freq_factor = number(parameters, "high_freq_factor").value_or(4);
  s.short_factor = numbers(parameters, "short_factor");
  s.long_factor = numbers(parameters, "long_factor");
  return s;
}

std::optional<std::int64_t> length_of(const json& c) {
  if (c.at("seq_len").is_null()) return std::nullopt;
  return c.at("seq_len").get<std::int64_t>();
}

double relative_error(double got, double want) { return want == 0 ? std::abs(got) : std::abs(got / want - 1); }

std::int32_t ulps(float a, float b) {
  return std::abs(std::bit_cast<std::int32_t>(a) - std::bit_cast<std::int32_t>(b));
}

RopeScaling make(RopeType type, double theta, std::int64_t dim, double original, double factor) {
  RopeScaling s;
  s.rope_type = type;
  s.rope_theta = theta;
  s.head_dim = s.rotary_dim = dim;
  s.original_max_position_embeddings = original;
  s.factor = factor;
  return s;
}

std::vector<double> multipliers(const RopeScaling& s, std::optional<std::int64_t> seq_len = std::nullopt) {
  std::vector<double> out = rope_frequencies(s, seq_len).inv_freq;
  const std::vector<double> plain = plain_inv_freq(s.rotary_dim, s.rope_theta);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] /= plain[i];
  return out;
}

std::vector<RopeType> every_type() {
  std::vector<RopeType> types;
  for (const Scaling* row : all_scalings) types.push_back(*row);
  return types;
}

}  // namespace

TEST_CASE("every golden config gives transformers' frequencies and attention factor") {
  for (const json& c : golden("rope_frequencies.json")) {
    const auto name = c.at("name").get<std::string>();
    CAPTURE(name);
    const auto expected = c.at("inv_freq_f64").get<std::vector<double>>();
    RopeScaling s = resolved(c.at("config"), c.at("resolved_rope_parameters"), expected.size());
    if (name == "partial 0.4 of head_dim 64 -> odd dim 25") s.rotary_dim = 25;
    const RopeFrequencies got = rope_frequencies(s, length_of(c));
    REQUIRE(got.inv_freq.size() == expected.size());
    double worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      worst = std::max(worst, relative_error(got.inv_freq[i], expected[i]));
    }
    CHECK(worst <= 1e-12);
    CHECK(relative_error(got.attention_factor, c.at("attention_factor").get<double>()) <= 1e-12);
    if (c.contains("softmax_scale_multiplier")) {
      CHECK(relative_error(mla_softmax_multiplier(s), c.at("softmax_scale_multiplier").get<double>()) <= 1e-12);
    }
  }
}

TEST_CASE("the profile hf_f32 gives upstream's own f32 frequencies to 2 ulp") {
  std::int32_t worst = 0;
  for (const json& c : golden("rope_frequencies.json")) {
    const auto name = c.at("name").get<std::string>();
    CAPTURE(name);
    const auto expected = c.at("inv_freq").get<std::vector<double>>();
    RopeScaling s = resolved(c.at("config"), c.at("resolved_rope_parameters"), expected.size());
    if (name == "partial 0.4 of head_dim 64 -> odd dim 25") s.rotary_dim = 25;
    const std::vector<float> got = rope_inv_freq_hf_f32(s, length_of(c));
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      const std::int32_t off = ulps(got[i], static_cast<float>(expected[i]));
      CHECK(off <= 2);
      worst = std::max(worst, off);
    }
  }
  MESSAGE("worst difference in ulp: " << worst);
}

TEST_CASE("dynamic and longrope follow the length as upstream's stateful caches do") {
  for (const json& model : golden("dynamic_state.json")) {
    if (!model.contains("steps")) continue;
    const json& config = model.at("config");
    json parameters = config.at("rope_scaling");
    parameters["rope_type"] = parameters.at("type");
    parameters["rope_theta"] = config.at("rope_theta");
    if (config.contains("original_max_position_embeddings")) {
      parameters["original_max_position_embeddings"] = config["original_max_position_embeddings"];
    }
    for (const json& step : model.at("steps")) {
      const auto expected = step.at("inv_freq").get<std::vector<double>>();
      const RopeScaling s = resolved(config, parameters, expected.size());
      // dynamic keeps the longest length it has seen until a forward below the trained length resets it.
      const bool dynamic = s.rope_type == dynamic_scaling;
      const auto length = step.at(dynamic ? "max_seq_len_cached" : "seq_len").get<std::int64_t>();
      CAPTURE(length);
      const RopeFrequencies got = rope_frequencies(s, length);
      const std::vector<float> f32 = rope_inv_freq_hf_f32(s, length);
      CHECK(relative_error(got.attention_factor, step.at("attention_scaling").get<double>()) <= 1e-12);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK(relative_error(got.inv_freq[i], expected[i]) <= 1e-6);
        CHECK(ulps(f32[i], static_cast<float>(expected[i])) <= 2);
      }
    }
  }
}

TEST_CASE("bases of the NTK formulas") {
  const json anchors = golden("analytic_anchors.json");
  for (const json& row : anchors.at("ntk_base")) {
    const double s = row.at("s").get<double>();
    CHECK(relative_error(ntk_theta(10000, s, 128), row.at("b_prime_d128").get<double>()) <= 1e-12);
    CHECK(relative_error(ntk_theta(10000, s, 64), row.at("b_prime_d64").get<double>()) <= 1e-12);
    CHECK(relative_error(ntk_theta(10000, s, 96), row.at("b_prime_d96").get<double>()) <= 1e-12);
  }
  for (const json& row : anchors.at("dyn_ntk_base")) {
    const RopeScaling s =
        make(dynamic_scaling, 10000, 128, row.at("Lmax").get<double>(), row.at("factor").get<double>());
    CHECK(relative_error(dynamic_theta(s, row.at("seq").get<std::int64_t>()), row.at("base").get<double>()) <= 1e-12);
  }
  // As loaded, and below the trained length, the base is the model's own.
  const RopeScaling s = make(dynamic_scaling, 10000, 128, 2048, 2);
  CHECK(dynamic_theta(s) == 10000);
  CHECK(dynamic_theta(s, 10) == 10000);
  CHECK(dynamic_theta(s, 4096) == doctest::Approx(30527.74).epsilon(1e-6));
  CHECK(dynamic_theta(s, 8192) == doctest::Approx(72195.86).epsilon(1e-6));
}

TEST_CASE("the critical pair and the critical base") {
  const json anchors = golden("analytic_anchors.json");
  for (const auto& [name, row] : anchors.at("critical_dimension").items()) {
    CAPTURE(name);
    const double pair =
        critical_pair(row.at("base").get<double>(), row.at("L").get<double>(), row.at("d").get<std::int64_t>());
    CHECK(pair == doctest::Approx(row.at("half_dim_real").get<double>()).epsilon(1e-4));
    CHECK(std::ceil(pair) == row.at("critical_pair_index").get<double>());
    CHECK(2 * std::ceil(pair) == row.at("critical_dim").get<double>());
    // Counted directly: the pairs whose wavelength exceeds the length.
    std::int64_t slow = 0;
    for (double w : rope_inv_freq(row.at("d").get<std::int64_t>(), row.at("base").get<double>())) {
      slow += 2 * std::numbers::pi / w > row.at("L").get<double>();
    }
    CHECK(slow == row.at("pairs_with_wavelength_gt_L").get<std::int64_t>());
  }
  for (const json& row : anchors.at("liu_betas")) {
    CHECK(relative_error(critical_theta(10000, 4096, row.at("T_tune").get<double>()), row.at("beta0").get<double>()) <=
          1e-12);
  }
  CHECK(critical_theta(5e5, 8192, 16384) == doctest::Approx(1776948.1).epsilon(1e-7));
  CHECK(critical_theta(1e4, 4096, 8192) == doctest::Approx(26784.0).epsilon(1e-5));
}

TEST_CASE("YaRN's ramp of the code and of the paper") {
  const json anchors = golden("analytic_anchors.json");
  for (const json& row : anchors.at("yarn")) {
    RopeScaling s = make(yarn_scaling, row.at("base").get<double>(), row.at("d").get<std::int64_t>(),
                         row.at("L").get<double>(), row.at("s").get<double>());
    const YarnRange range = yarn_range(s);
    CHECK(range.low == row.at("low").get<double>());
    CHECK(range.high == row.at("high").get<double>());
    CHECK(relative_error(yarn_attention_factor(s), row.at("mscale").get<double>()) <= 1e-12);
    for (const char* ramp : {"code", "paper"}) {
      CAPTURE(ramp);
      s.yarn_ramp = from_word<YarnRamp>(ramp);
      const std::vector<double> got = multipliers(s);
      const auto expected = row.at(std::string(ramp) + "_mult").get<std::vector<double>>();
      REQUIRE(got.size() == expected.size());
      for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    }
    s.rope_type = ntk_by_parts_scaling;
    const RopeFrequencies parts = rope_frequencies(s);
    s.rope_type = yarn_scaling;
    CHECK(parts.inv_freq == rope_frequencies(s).inv_freq);
    CHECK(parts.attention_factor == 1);
  }
  for (const auto& [scale, expected] : anchors.at("mscale").items()) {
    CHECK(relative_error(yarn_mscale(std::stod(scale)), expected.get<double>()) <= 1e-12);
  }
}

TEST_CASE("YaRN as gpt-oss sets it: no rounding, the last clamp at dim - 1, the factor outside the power") {
  RopeScaling s = make(yarn_scaling, 150000, 64, 4096, 32);
  CHECK(yarn_range(s).low == 8);
  CHECK(yarn_range(s).high == 18);
  CHECK(rope_frequencies(s).inv_freq[17] == doctest::Approx(2.279478e-4).epsilon(1e-6));
  s.truncate = false;
  CHECK(yarn_range(s).low == doctest::Approx(8.092779).epsilon(1e-7));
  CHECK(yarn_range(s).high == doctest::Approx(17.398025).epsilon(1e-7));
  CHECK(rope_frequencies(s).inv_freq[17] == doctest::Approx(1.293187e-4).epsilon(1e-6));
  CHECK(rope_frequencies(s).inv_freq[20] == doctest::Approx(1.818834e-5).epsilon(1e-6));
  s = make(yarn_scaling, 10000, 64, 131072, 8);
  CHECK(yarn_range(s).high == 35);
  s.truncate = false;
  CHECK(yarn_range(s).high == doctest::Approx(34.5546).epsilon(1e-5));
}

TEST_CASE("YaRN's attention factor: given ones replace, 0 counts, the ratio needs both mscales") {
  RopeScaling s = make(yarn_scaling, 10000, 128, 4096, 128);
  CHECK(yarn_attention_factor(s) == doctest::Approx(1.485203).epsilon(1e-6));
  s.factor = 64;
  CHECK(yarn_attention_factor(s) == doctest::Approx(1.4158883).epsilon(1e-7));
  for (double given : {1.0, 0.0, 1.4158883}) {
    s.attention_factor = given;
    CHECK(yarn_attention_factor(s) == given);
  }
  s.attention_factor.reset();
  s.factor = 16;
  s.mscale = 1;
  CHECK(yarn_attention_factor(s) == doctest::Approx(1.2772589).epsilon(1e-7));
  CHECK(mla_softmax_multiplier(s) == 1);
  s.mscale_all_dim = 1;
  CHECK(yarn_attention_factor(s) == 1);
  s.factor = 40;
  CHECK(mla_softmax_multiplier(s) == doctest::Approx(1.873854).epsilon(1e-6));
  // Static: nothing depends on the length in use.
  CHECK(rope_frequencies(s, 1).inv_freq == rope_frequencies(s, 1000000).inv_freq);
}

TEST_CASE("Llama 3's pairs kept, blended, divided") {
  const auto anchors = golden("analytic_anchors.json");
  for (const json& row : anchors.at("llama3_1")) {
    const RopeScaling s = make(llama3_scaling, 500000, 128, 8192, row.at("factor").get<double>());
    const std::vector<double> got = multipliers(s);
    const auto expected = row.at("mult").get<std::vector<double>>();
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  }
  const RopeScaling s = make(llama3_scaling, 500000, 64, 8192, 32);
  const std::vector<double> inv_freq = rope_frequencies(s).inv_freq;
  CHECK(inv_freq[15] == doctest::Approx(0.00129054793).epsilon(1e-8));
  CHECK(inv_freq[16] == doctest::Approx(0.000429556797).epsilon(1e-8));
  CHECK(inv_freq[17] == doctest::Approx(9.7082878e-5).epsilon(1e-7));
  const std::vector<double> m = multipliers(s);
  for (std::size_t i = 0; i < 15; ++i) CHECK(m[i] == 1);
  for (std::size_t i = 18; i < 32; ++i) CHECK(m[i] == doctest::Approx(1.0 / 32));
}

TEST_CASE("LongRoPE: short up to the original length, long from one token more") {
  RopeScaling s = make(longrope_scaling, 10000, 8, 4096, 32);
  s.short_factor = {1, 1, 1, 2};
  s.long_factor = {1, 4, 16, 64};
  const std::vector<double> plain = rope_inv_freq(8, 10000);
  CHECK(rope_frequencies(s).inv_freq[3] == plain[3] / 2);
  CHECK(rope_frequencies(s, 4096).inv_freq[3] == plain[3] / 2);
  CHECK(rope_frequencies(s, 4097).inv_freq[3] == plain[3] / 64);
  CHECK(rope_frequencies(s).attention_factor == doctest::Approx(1.1902380714).epsilon(1e-10));
  s.long_factor.pop_back();
  CHECK_THROWS_WITH_AS(rope_frequencies(s), doctest::Contains("long_factor"), std::invalid_argument);
}

TEST_CASE("p-RoPE leaves the slow pairs still") {
  RopeScaling s = make(proportional_scaling, 1e6, 512, 4096, 1);
  s.partial_rotary_factor = 0.25;
  const std::vector<double> inv_freq = rope_frequencies(s).inv_freq;
  REQUIRE(inv_freq.size() == 256);
  for (std::size_t i = 0; i < 64; ++i) {
    CHECK(inv_freq[i] == doctest::Approx(std::pow(1e6, -2.0 * static_cast<double>(i) / 512)).epsilon(1e-14));
  }
  for (std::size_t i = 64; i < 256; ++i) CHECK(inv_freq[i] == 0);
}

TEST_CASE("HoPE: pairs that never finish a rotation in training stand still") {
  const RopeScaling s = make(hope_scaling, 10000, 128, 4096, 4);
  const std::vector<double> plain = plain_inv_freq(128, 10000), kept = rope_frequencies(s).inv_freq;
  // Llama-2's critical pair is 46 (analytic_anchors.json).
  for (std::size_t i = 0; i < 46; ++i) CHECK(kept[i] == plain[i]);
  for (std::size_t i = 46; i < 64; ++i) CHECK(kept[i] == 0);
  RopeScaling bare = s;
  bare.original_max_position_embeddings = 0;
  CHECK_THROWS_AS(rope_frequencies(bare), std::invalid_argument);
}

TEST_CASE("Resonance: whole wavelengths, so that angles repeat rotation after rotation") {
  const std::vector<double> plain = plain_inv_freq(128, 10000);
  const std::vector<double> rounded = rope_frequencies(make(resonance_scaling, 10000, 128, 4096, 1)).inv_freq;
  const auto anchors = golden("analytic_anchors.json");
  for (const auto& row : anchors.at("resonance_first16")) {
    const auto i = row.at("i").get<std::size_t>();
    CHECK(two_pi / plain[i] == doctest::Approx(row.at("lambda").get<double>()).epsilon(1e-5));
    const auto wavelength = row.at("rounded").get<double>();
    CHECK(two_pi / rounded[i] == doctest::Approx(wavelength).epsilon(1e-14));
    CHECK(std::cos((5 + 7 * wavelength) * rounded[i]) == doctest::Approx(std::cos(5 * rounded[i])).epsilon(1e-12));
  }
  // Joined with YaRN's ramp, from 20 to 46: worked out in Python's floats from the papers' formulas.
  const RopeFrequencies stretched = rope_frequencies(make(resonance_scaling, 10000, 128, 4096, 4));
  for (const auto& [pair, wavelength] :
       std::vector<std::pair<std::size_t, double>>{{0, 6}, {20, 112}, {30, 662}, {40, 4696}, {63, 217641}}) {
    CHECK(two_pi / stretched.inv_freq[pair] == doctest::Approx(wavelength).epsilon(1e-14));
  }
  CHECK(stretched.attention_factor == doctest::Approx(0.1 * std::log(4) + 1).epsilon(1e-15));
}

TEST_CASE("properties of every method over random parameters") {
  Generator random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const std::int64_t dim = 2 * random.integer(2, 129);
    const double theta = std::pow(10.0, 3 + 5 * random.uniform());
    const double original = static_cast<double>(random.integer(64, 65536));
    const double factor = 1 + 63 * random.uniform();
    const auto target = static_cast<std::int64_t>(original * factor);
    for (const RopeType type : every_type()) {
      CAPTURE(type.word());
      CAPTURE(dim);
      // Slow pairs that stand still, and whole wavelengths, are there whatever the factor.
      if (type == hope_scaling || type == resonance_scaling) continue;
      RopeScaling s = make(type, theta, dim, original, factor);
      s.short_factor.assign(static_cast<std::size_t>(dim / 2), 1);
      s.long_factor.assign(static_cast<std::size_t>(dim / 2), factor);
      const std::vector<double> m = multipliers(s, target);
      for (std::size_t i = 0; i < m.size(); ++i) {
        CHECK(m[i] <= 1 + 1e-12);
        CHECK(m[i] > 0);
        // Slower pairs are never stretched less.
        if (i > 0) CHECK(m[i] <= m[i - 1] * (1 + 1e-12));
        // dynamic slows the last pair by its growth; no other method by more than the factor.
        if (type != dynamic_scaling) CHECK(m[i] >= 1 / factor - 1e-12);
      }
      // At factor 1 nothing happens, up to the trained length for dynamic.
      s.factor = 1;
      s.long_factor.assign(static_cast<std::size_t>(dim / 2), 1);
      const RopeFrequencies same = rope_frequencies(s, static_cast<std::int64_t>(original));
      CHECK(same.attention_factor == 1);
      for (std::size_t i = 0; i < m.size(); ++i) {
        CHECK(same.inv_freq[i] == doctest::Approx(plain_inv_freq(s.rotary_dim, s.rope_theta)[i]).epsilon(1e-15));
      }
    }
    // Position interpolation at s L turns as the plain rotation at L; NTK's last pair does too.
    const RopeScaling linear = make(linear_scaling, theta, dim, original, factor);
    const std::vector<double> plain = plain_inv_freq(linear.rotary_dim, linear.rope_theta);
    const std::vector<double> stretched = rope_frequencies(linear).inv_freq;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      CHECK(stretched[i] * factor * original == doctest::Approx(plain[i] * original).epsilon(1e-14));
    }
    const RopeScaling ntk = make(ntk_scaling, theta, dim, original, factor);
    CHECK(rope_frequencies(ntk).inv_freq.back() * factor == doctest::Approx(plain.back()).epsilon(1e-12));
  }
}

TEST_CASE("a score depends on the gap alone under every scaling") {
  Generator random(11);
  const std::int64_t dim = 32;
  std::vector<double> q(dim), k(dim), turned_q(dim), turned_k(dim);
  random.standard_normal(q);
  random.standard_normal(k);
  for (const RopeType type : every_type()) {
    CAPTURE(type.word());
    RopeScaling s = make(type, 10000, dim, 512, 4);
    s.partial_rotary_factor = 0.5;
    s.short_factor.assign(16, 1);
    s.long_factor.assign(16, 3);
    const RopeFrequencies f = rope_frequencies(s, 2048);
    auto score = [&](double m, double n) {
      apply_rope<double>(q, turned_q, 1, dim, std::vector<double>{m}, f.inv_freq, RopeLayout::half, f.attention_factor);
      apply_rope<double>(k, turned_k, 1, dim, std::vector<double>{n}, f.inv_freq, RopeLayout::half, f.attention_factor);
      double sum = 0;
      for (std::size_t i = 0; i < q.size(); ++i) sum += turned_q[i] * turned_k[i];
      return sum;
    };
    CHECK(std::abs(score(5, 2) - score(1005, 1002)) <= 1e-10);
    CHECK(std::abs(score(7, 2) - score(5, 2)) > 1e-3);
    // The attention factor scales q.k by its square.
    RopeScaling plain = s;
    plain.rope_type = default_scaling;
    double at_zero = 0;
    for (std::size_t i = 0; i < q.size(); ++i) at_zero += q[i] * k[i];
    CHECK(score(9, 9) == doctest::Approx(at_zero * f.attention_factor * f.attention_factor).epsilon(1e-12));
  }
}

TEST_CASE("what a formula needs and cannot have is refused by name") {
  RopeScaling s;
  s.rope_type = yarn_scaling;
  s.factor = 4;
  CHECK_THROWS_WITH_AS(rope_frequencies(s), doctest::Contains("original_max_position_embeddings"),
                       std::invalid_argument);
  s.original_max_position_embeddings = 0;
  CHECK_THROWS_AS(rope_frequencies(s), std::invalid_argument);
  for (const RopeType type : every_type()) {
    CAPTURE(type.word());
    RopeScaling bare;
    bare.rope_type = type;
    bare.original_max_position_embeddings = 4096;
    if (!type->uses_factor || type == proportional_scaling) continue;
    CHECK_THROWS_WITH_AS(rope_frequencies(bare), doctest::Contains("factor"), std::invalid_argument);
  }
  for (RopeType type : std::vector<RopeType>{ntk_scaling, dynamic_scaling}) {
    const RopeScaling two = make(type, 10000, 2, 4096, 4);
    CHECK_THROWS_WITH_AS(rope_frequencies(two), doctest::Contains("rotary_dim 2"), std::invalid_argument);
  }
  // dynamic below the trained length is plain RoPE, never a complex or a missing number.
  const RopeScaling dynamic = make(dynamic_scaling, 10000, 64, 4096, 8);
  CHECK(rope_frequencies(dynamic, 1).inv_freq == plain_inv_freq(dynamic.rotary_dim, dynamic.rope_theta));
}
