#include "poslab/attention/kv_cache.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "golden.h"
#include "poslab/rope/scalings.h"

using namespace poslab;

namespace {

RopeScaling scaling_of(const nlohmann::json& config) {
  RopeScaling s;
  const auto& method = config["rope_scaling"];
  s.head_dim = s.rotary_dim =
      config["hidden_size"].get<std::int64_t>() / config["num_attention_heads"].get<std::int64_t>();
  s.rope_theta = config["rope_theta"].get<double>();
  s.max_position_embeddings = config["max_position_embeddings"].get<double>();
  if (config.contains("original_max_position_embeddings")) {
    s.original_max_position_embeddings = config["original_max_position_embeddings"].get<double>();
  }
  if (method["type"] == "dynamic") {
    s.rope_type = dynamic_scaling;
    s.factor = method["factor"].get<double>();
  } else {
    REQUIRE(method["type"] == "longrope");
    s.rope_type = longrope_scaling;
    s.short_factor = method["short_factor"].get<std::vector<double>>();
    s.long_factor = method["long_factor"].get<std::vector<double>>();
  }
  return s;
}

}  // namespace

TEST_CASE("RopeState follows transformers through a sequence of passes") {
  int checked = 0;
  for (const auto& entry : golden("dynamic_state.json")) {
    if (!entry.contains("steps")) continue;  // a pass in which transformers itself fails
    const RopeScaling scaling = scaling_of(entry["config"]);
    RopeState state(scaling);
    for (const auto& step : entry["steps"]) {
      CAPTURE(entry["name"].get<std::string>());
      CAPTURE(step["seq_len"].get<std::int64_t>());
      const RopeFrequencies& f = state.at(step["seq_len"].get<std::int64_t>());
      const auto expected = step["inv_freq"].get<std::vector<double>>();
      REQUIRE(f.inv_freq.size() == expected.size());
      // Upstream computes in f32.
      for (std::size_t i = 0; i < expected.size(); ++i) CHECK(std::abs(f.inv_freq[i] / expected[i] - 1) < 2e-6);
      CHECK(f.attention_factor == doctest::Approx(step["attention_scaling"].get<double>()).epsilon(1e-6));
      if (scaling.rope_type == dynamic_scaling) CHECK(state.length() == step["max_seq_len_cached"].get<double>());
      ++checked;
    }
  }
  CHECK(checked == 16);
}

TEST_CASE("KeyCache turns keys when they come, or anew, as the policy says") {
  const std::vector<double> key = {1, 0, 0.5, 2};  // two heads of one pair
  const RopeFrequencies slow{{0.1}, 1}, fast{{0.3}, 2};
  for (const CachePolicy policy : {CachePolicy::keep, CachePolicy::re_rotate, CachePolicy::rebuild}) {
    KeyCache cache(2, 2, RopeLayout::interleaved, policy);
    std::vector<double> two = key;
    two.insert(two.end(), key.begin(), key.end());
    cache.append(two, std::vector<double>{0, 1}, slow);
    cache.append(key, std::vector<double>{2}, slow);
    cache.append(key, std::vector<double>{3}, fast);
    REQUIRE(cache.size() == 4);
    const auto check = [&](std::int64_t place, double position, const RopeFrequencies& f) {
      const double c = f.attention_factor * std::cos(position * f.inv_freq[0]);
      const double s = f.attention_factor * std::sin(position * f.inv_freq[0]);
      for (std::int64_t head = 0; head < 2; ++head) {
        const double x = key[static_cast<std::size_t>(2 * head)], y = key[static_cast<std::size_t>(2 * head + 1)];
        CHECK(cache.keys().row(head, place)[0] == doctest::Approx(x * c - y * s));
        CHECK(cache.keys().row(head, place)[1] == doctest::Approx(x * s + y * c));
      }
    };
    for (std::int64_t i = 0; i < 3; ++i) {
      check(i, static_cast<double>(i), policy == CachePolicy::keep ? slow : fast);
    }
    check(3, 3, fast);
    CHECK(cache.keys_redone() == (policy == CachePolicy::keep ? 0 : policy == CachePolicy::re_rotate ? 2 + 3 : 3));
  }
  KeyCache cache(2, 2, RopeLayout::half, CachePolicy::keep);
  CHECK_THROWS_AS(cache.append(key, std::vector<double>{0, 1}, slow), std::invalid_argument);
}
