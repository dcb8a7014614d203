#include "poslab/core/random.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>
#include <string>

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "golden.h"

namespace poslab {
namespace {

std::vector<double> hex_floats(const std::string& text) {
  std::vector<double> values;
  std::istringstream in(text);
  for (std::string word; in >> word;) values.push_back(std::strtod(word.c_str(), nullptr));
  return values;
}

std::uint64_t hex_word(const nlohmann::json& text) { return std::stoull(text.get<std::string>(), nullptr, 16); }

std::uint64_t bits_of(double x) { return std::bit_cast<std::uint64_t>(x); }
std::uint64_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
std::uint64_t bits_of(std::int64_t x) { return static_cast<std::uint64_t>(x); }

// Each draw of a fresh stream equals the listed value to the last bit; returns how many were compared.
template <class Draw>
std::size_t check_draws(const nlohmann::json& wanted, Draw draw) {
  std::size_t wrong = 0;
  const auto compare = [&](double want) {
    if (bits_of(static_cast<double>(draw())) != bits_of(want)) ++wrong;
  };
  std::size_t count = 0;
  if (wanted.is_string()) {
    for (double want : hex_floats(wanted)) compare(want), ++count;
  } else {
    for (const auto& want : wanted) compare(want.get<double>()), ++count;
  }
  CHECK(wrong == 0);
  return count;
}

template <class Draw>
void check_million(const nlohmann::json& wanted, Draw draw) {
  std::uint64_t sum = 0;
  std::uint64_t mixed = 0;
  std::uint64_t weighted = 0;
  const auto n = wanted.at("n").get<std::uint64_t>();
  for (std::uint64_t i = 1; i <= n; ++i) {
    const std::uint64_t bits = bits_of(draw());
    sum += bits;
    mixed ^= bits;
    weighted += i * bits;
  }
  CHECK(n == 1000000);
  CHECK(sum == hex_word(wanted.at("sum")));
  CHECK(mixed == hex_word(wanted.at("xor")));
  CHECK(weighted == hex_word(wanted.at("wsum")));
}

void for_each_seed(const std::function<void(std::int64_t, const nlohmann::json&)>& check) {
  const auto file = golden("numpy_rng.json");
  int seeds = 0;
  for (const auto& [seed, entry] : file.at("seeds").items()) {
    CAPTURE(seed);
    check(std::stoll(seed), entry);
    ++seeds;
  }
  CHECK(seeds == 4);
}

// numpy takes the tail of its f32 normals from libc's log1pf, which glibc rounds correctly from 2.41 on.
nlohmann::json f32_normals(std::int64_t seed, const nlohmann::json& want) {
#ifdef __GLIBC__
  if (std::stoi(std::string(gnu_get_libc_version()).substr(2)) >= 41) {
    return golden("numpy_rng_glibc_2.41.json").at("seeds").at(std::to_string(seed)).at("normal_f32_1e6");
  }
#endif
  return want.at("normal_f32_1e6");
}

}  // namespace

TEST_CASE("each kind of draw follows numpy bit for bit") {
  for_each_seed([](std::int64_t seed, const nlohmann::json& want) {
    const auto fresh = [&](auto draw) {
      return [rng = std::make_shared<Generator>(seed), draw] { return draw(*rng); };
    };
    CHECK(check_draws(want["standard_normal_f64_1000"], fresh([](auto& r) { return r.standard_normal(); })) == 1000);
    CHECK(check_draws(want["standard_normal_f32_1000"], fresh([](auto& r) { return r.standard_normal_f32(); })) ==
          1000);
    CHECK(check_draws(want["random_f64_1000"], fresh([](auto& r) { return r.uniform(); })) == 1000);
    CHECK(check_draws(want["random_f32_1000"], fresh([](auto& r) { return r.uniform_f32(); })) == 1000);
    CHECK(check_draws(want["integers_0_100_50"], fresh([](auto& r) { return r.integer(0, 100); })) == 50);
    CHECK(check_draws(want["integers_m5_5_endpoint_20"], fresh([](auto& r) { return r.integer(-5, 6); })) == 20);
    CHECK(check_draws(want["integers_0_2p32_20"], fresh([](auto& r) { return r.integer(0, std::int64_t{1} << 32); })) ==
          20);
    CHECK(check_draws(want["integers_0_2p40_20"], fresh([](auto& r) { return r.integer(0, std::int64_t{1} << 40); })) ==
          20);
    CHECK(check_draws(want["uniform_-2_3_20"], fresh([](auto& r) { return -2 + 5 * r.uniform(); })) == 20);
    CHECK(check_draws(want["normal_loc1.5_scale0.02_20"], fresh([](auto& r) { return 1.5 + r.normals(1, 0.02)[0]; })) ==
          20);
  });
}

TEST_CASE("a 2^63 range shows the raw 64-bit draws") {
  for_each_seed([](std::int64_t seed, const nlohmann::json& want) {
    Generator rng(seed);
    for (const auto& word : want.at("raw_u64_first8")) {
      CHECK(static_cast<std::uint64_t>(rng.integer(std::numeric_limits<std::int64_t>::min(), 0)) ==
            (hex_word(word) >> 1 | std::uint64_t{1} << 63));
    }
  });
}

TEST_CASE("ranges that reject a quarter of the draws follow numpy") {
  // numpy 1.24.2: default_rng(7).integers(0, 3 * 2**30, 12), then default_rng(7).integers(-2**62, 2**61 + 1, 12).
  const std::vector<std::int64_t> narrow = {3043751912, 2013573438, 2203897839, 1862810377, 2498658503, 2685377905,
                                            725443136,  178879731,  966903282,  2813912609, 16960732,   1609925925};
  const std::vector<std::int64_t> wide = {-287569983142757388,  1594816493779838968,  754142260169547141,
                                          -3053808744433987912, 1431145297297133236,  1069185404059173523,
                                          -1374732399083088532, -2515450409588264293, -2848618247567067238,
                                          -1121458791239975765, -782852018729610443,  871575816839439621};
  Generator rng(7);
  for (std::int64_t want : narrow) CHECK(rng.integer(0, std::int64_t{3} << 30) == want);
  rng = Generator(7);
  for (std::int64_t want : wide) CHECK(rng.integer(-(std::int64_t{1} << 62), (std::int64_t{1} << 61) + 1) == want);
}

TEST_CASE("permutations follow numpy") {
  for_each_seed([](std::int64_t seed, const nlohmann::json& want) {
    CHECK(Generator(seed).permutation(10) == want.at("shuffle_f64_arange10").get<std::vector<std::int64_t>>());
    CHECK(Generator(seed).permutation(10) == want.at("permutation_10").get<std::vector<std::int64_t>>());
    auto thousand = Generator(seed).permutation(1000);
    thousand.resize(20);
    CHECK(thousand == want.at("permutation_1000_first20").get<std::vector<std::int64_t>>());
  });
  CHECK(Generator(0).permutation(0).empty());
}

TEST_CASE("a million draws have numpy's checksums") {
  for_each_seed([](std::int64_t seed, const nlohmann::json& want) {
    Generator normal(seed);
    check_million(want.at("normal_f64_1e6"), [&] { return normal.standard_normal(); });
    Generator normal_f32(seed);
    check_million(f32_normals(seed, want), [&] { return normal_f32.standard_normal_f32(); });
    Generator uniform(seed);
    check_million(want.at("random_f64_1e6"), [&] { return uniform.uniform(); });
    Generator uniform_f32(seed);
    check_million(want.at("random_f32_1e6"), [&] { return uniform_f32.uniform_f32(); });
    Generator integer(seed);
    check_million(want.at("integers_0_100_1e6"), [&] { return integer.integer(0, 100); });
    const auto order = Generator(seed).permutation(1000000);
    check_million(want.at("permutation_1e6"), [&, i = std::size_t{0}]() mutable { return order[i++]; });
  });
}

TEST_CASE("draws beyond the ziggurat's base follow numpy") {
  for_each_seed([](std::int64_t seed, const nlohmann::json& want) {
    Generator rng(seed);
    std::int64_t drawn = 0;
    double last = 0;
    for (const auto& event : want.at("normal_f64_1e6").at("first_tail_events")) {
      for (; drawn <= event[0].get<std::int64_t>(); ++drawn) last = rng.standard_normal();
      CHECK(last == std::strtod(event[1].get<std::string>().c_str(), nullptr));
      CHECK(std::abs(last) > 3.654);
    }
    CHECK(drawn > 100);
  });
}

TEST_CASE("mixed calls share one stream and its spare half word") {
  for_each_seed([](std::int64_t seed, const nlohmann::json& want) {
    const auto& mixed = want.at("mixed");
    Generator rng(seed);
    CHECK(check_draws(mixed["i1"], [&] { return rng.integer(0, 10); }) == 3);
    std::vector<double> normals(2);
    rng.standard_normal(normals);
    CHECK(normals == hex_floats(mixed["n1"]));
    CHECK(check_draws(mixed["i2"], [&] { return rng.integer(0, 10); }) == 2);
    CHECK(check_draws(mixed["f1"], [&] { return rng.standard_normal_f32(); }) == 3);
    CHECK(check_draws(mixed["u1"], [&] { return rng.uniform(); }) == 2);
    CHECK(rng.permutation(5) == mixed["p"].get<std::vector<std::int64_t>>());
    CHECK(rng.integer(0, 10) == mixed["i3"].get<std::int64_t>());
    CHECK(rng.uniform() == hex_floats(mixed["u2"])[0]);
    // A full 32-bit draw hands out the spare half, when there is one.
    if (mixed["end_has_uint32"].get<int>() == 1) {
      CHECK(rng.integer(0, std::int64_t{1} << 32) == mixed["end_uinteger"].get<std::int64_t>());
    }
  });
}

TEST_CASE("impossible draws are refused") {
  CHECK_THROWS_WITH_AS(Generator(-1), doctest::Contains("[Generator] seed"), std::invalid_argument);
  Generator rng(0);
  CHECK_THROWS_AS(rng.integer(3, 3), std::invalid_argument);
  CHECK_THROWS_AS(rng.permutation(-1), std::invalid_argument);
  CHECK_THROWS_AS(rng.normals(-1), std::invalid_argument);
  CHECK(rng.integer(7, 8) == 7);
}

}  // namespace poslab
