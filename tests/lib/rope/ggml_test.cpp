#include "poslab/rope/ggml.h"

#include <doctest/doctest.h>

#include <cmath>

#include "golden.h"
#include "poslab/rope/rope.h"
#include "poslab/rope/scalings.h"

using namespace poslab;
using nlohmann::json;

namespace {

// The README's tolerances: ggml multiplies f32 angles up, so the error grows with the position.
double tolerance(double position) {
  if (position <= 17) return 4e-6;
  return position <= 4096 ? 1.2e-3 : 1.5e-2;
}

}  // namespace

TEST_CASE("ggml's outputs, its ramp, its attention factor and its backward turn") {
  const json file = golden("ggml_rope.json");
  int checked = 0;
  for (const json& c : file.at("cases")) {
    const auto name = c.at("name").get<std::string>();
    CAPTURE(name);
    const auto mode = c.at("mode").get<int>();
    if (mode != 0 && mode != 2) continue;  // mrope
    GgmlRope rope;
    rope.n_dims = c.at("n_dims").get<std::int64_t>();
    rope.n_ctx_orig = c.at("n_ctx_orig").get<std::int64_t>();
    rope.freq_base = c.at("freq_base").get<double>();
    rope.freq_scale = c.at("freq_scale").get<double>();
    rope.ext_factor = c.at("ext_factor").get<double>();
    rope.attn_factor = c.at("attn_factor").get<double>();
    rope.beta_fast = c.at("beta_fast").get<double>();
    rope.beta_slow = c.at("beta_slow").get<double>();
    rope.freq_factors = c.at("freq_factors").get<std::vector<double>>();
    const RopeFrequencies f = ggml_frequencies(rope);
    const RopeLayout layout = mode == 0 ? RopeLayout::interleaved : RopeLayout::half;
    const double direction = c.at("back").get<bool>() ? -1 : 1;

    const auto input = c.at("input").get<std::vector<double>>();
    const auto expected = c.at("output").get<std::vector<double>>();
    const auto head_dim = c.at("head_dim").get<std::int64_t>();
    const auto n_head = c.at("n_head").get<std::int64_t>();
    const auto width = static_cast<std::size_t>(head_dim);
    std::vector<double> got(width);
    std::size_t row = 0;
    for (const json& position : c.at("positions")) {
      const auto p = position.get<double>();
      CAPTURE(p);
      for (std::int64_t h = 0; h < n_head; ++h, row += width) {
        apply_rope<double>(std::span(input).subspan(row, width), got, 1, head_dim, std::vector<double>{direction * p},
                           f.inv_freq, layout, f.attention_factor);
        double worst = 0;
        for (std::size_t i = 0; i < width; ++i) worst = std::max(worst, std::abs(got[i] - expected[row + i]));
        CHECK(worst <= tolerance(p));
      }
    }
    ++checked;
  }
  CHECK(checked == 27);
}

TEST_CASE("ggml's parameters for a Hugging Face set turn as that set does") {
  RopeScaling s;
  s.rope_theta = 500000;
  s.original_max_position_embeddings = 8192;
  s.factor = 8;
  s.short_factor.assign(64, 1.5);
  s.long_factor.assign(64, 6);
  for (const Scaling* row : all_scalings) {
    const RopeType type = *row;
    CAPTURE(type.word());
    s.rope_type = type;
    const std::optional<GgmlRope> ggml = to_ggml(s, 30000);
    if (!type->to_ggml) {
      CHECK_FALSE(ggml);
      continue;
    }
    REQUIRE(ggml);
    const RopeFrequencies want = rope_frequencies(s, 30000);
    const RopeFrequencies got = ggml_frequencies(*ggml);
    CHECK(got.attention_factor == doctest::Approx(want.attention_factor).epsilon(1e-14));
    for (std::size_t i = 0; i < want.inv_freq.size(); ++i) {
      CHECK(got.inv_freq[i] == doctest::Approx(want.inv_freq[i]).epsilon(1e-13));
    }
  }
  s.rope_type = yarn_scaling;
  s.attention_factor = 1.0;  // Hugging Face: the value itself; ggml: times 1 + 0.1 ln 8
  CHECK(to_ggml(s)->attn_factor == doctest::Approx(1 / 1.2079441541679836).epsilon(1e-14));
  CHECK(to_ggml(s)->freq_scale == 0.125);
  s.truncate = false;
  CHECK_FALSE(to_ggml(s));
}
