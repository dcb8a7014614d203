#include "poslab/rope/multi_axis.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

#include "golden.h"

using namespace poslab;
using nlohmann::json;
using Reals = std::vector<double>;
using Counts = std::vector<std::int64_t>;

namespace {

AxisPositions positions_of(const json& axes) {
  AxisPositions found;
  found.n_axes = static_cast<std::int64_t>(axes.size());
  for (const json& axis : axes) {
    const auto values = axis.get<Reals>();
    found.seq_len = static_cast<std::int64_t>(values.size());
    found.values.insert(found.values.end(), values.begin(), values.end());
  }
  return found;
}

MultiAxisSettings settings_of(const json& c) {
  return {.form = MultiAxis::from_word(c.at("form").get<std::string>()),
          .rotary_dim = c.at("rotary_dim").get<std::int64_t>(),
          .rope_theta = c.at("rope_theta").get<double>(),
          .sections = c.at("sections").get<Counts>()};
}

Counts axes(const char* form, std::int64_t n_pairs, const Counts& sections) {
  return axis_of_pairs(MultiAxis::from_word(form), n_pairs, sections);
}

std::int64_t count(const Counts& values, std::int64_t value) { return std::count(values.begin(), values.end(), value); }

double frequency(const MultiAxisRope& rope, std::int64_t axis, std::int64_t pair) {
  return rope.inv_freq[static_cast<std::size_t>(axis * rope.n_pairs + pair)];
}

}  // namespace

TEST_CASE("multi-axis rotations are those of transformers' own classes, in double and in f32") {
  Counts seen(MultiAxis::all().size(), 0);
  const json file = golden("multi_axis.json");
  for (const json& c : file.at("rotations")) {
    const auto name = c.at("name").get<std::string>();
    CAPTURE(name);
    const MultiAxisSettings settings = settings_of(c);
    const MultiAxisRope rope = multi_axis_rope(settings);
    const AxisPositions positions = positions_of(c.at("positions"));
    const Reals angles = multi_axis_angles(rope, positions);
    const auto head_dim = c.at("head_dim").get<std::size_t>();
    Reals x, out(static_cast<std::size_t>(positions.seq_len) * head_dim);
    for (std::size_t i = 0; i < out.size(); ++i) {
      x.push_back((static_cast<double>(37 * (i % head_dim) % 101) - 50.5) / 32);
    }
    const bool side_by_side =
        name.find("side by side") != std::string::npos || settings.form.word() == "mrope_space_first";
    const RopeLayout layout = side_by_side ? RopeLayout::interleaved : RopeLayout::half;
    CHECK((settings.form->usual_layout == layout || name.find("side by side") != std::string::npos));
    apply_multi_axis_rope(x, out, 1, static_cast<std::int64_t>(head_dim), positions, rope, layout);

    for (std::size_t token = 0; token < static_cast<std::size_t>(positions.seq_len); ++token) {
      CAPTURE(token);
      const auto expected = c.at("output").at(token).get<Reals>();
      const auto f32 = c.at("output_f32").at(token).get<Reals>();
      double largest = 0, worst = 0, worst_f32 = 0;
      for (std::int64_t i = 0; i < rope.n_pairs; ++i) {
        largest = std::max(
            largest, std::abs(angles[token * static_cast<std::size_t>(rope.n_pairs) + static_cast<std::size_t>(i)]));
      }
      for (std::size_t channel = 0; channel < head_dim; ++channel) {
        const double got = out[token * head_dim + channel];
        worst = std::max(worst, std::abs(got - expected[channel]));
        worst_f32 = std::max(worst_f32, std::abs(got - f32[channel]));
      }
      // In double what differs is the rounding of the angle; f32 rounds frequency and angle to 2^-24 of themselves each
      // and takes the power with a few more, and the input is up to 1.6 * sqrt(2) long.
      CHECK(worst <= 1e-14 + 0x1p-50 * largest);
      CHECK(worst_f32 <= 1e-6 + 5 * 0x1p-24 * 2.3 * largest);
    }
    for (std::size_t i = 0; i < seen.size(); ++i) seen[i] += MultiAxis::all()[i].word == settings.form.word();
  }
  CHECK(seen == Counts{3, 3, 1, 2, 2, 2, 0, 0});
}

TEST_CASE("M-RoPE with four axes is ggml's rope_multi") {
  int cases = 0;
  const json file = golden("ggml_rope.json");
  for (const json& c : file.at("cases")) {
    if (c.at("mode").get<int>() != 8) continue;
    ++cases;
    const auto head_dim = c.at("head_dim").get<std::int64_t>(), n_head = c.at("n_head").get<std::int64_t>();
    AxisPositions positions;
    positions.n_axes = 4;
    positions.values = c.at("positions").get<Reals>();
    positions.seq_len = static_cast<std::int64_t>(positions.values.size()) / 4;
    const MultiAxisRope rope = multi_axis_rope({.form = MultiAxis::from_word("mrope"),
                                                .rotary_dim = c.at("n_dims").get<std::int64_t>(),
                                                .rope_theta = c.at("freq_base").get<double>(),
                                                .sections = c.at("sections").get<Counts>()});
    const auto input = c.at("input").get<Reals>(), expected = c.at("output").get<Reals>();
    const auto width = static_cast<std::size_t>(head_dim);
    Reals got(width);
    std::size_t row = 0;
    for (std::int64_t token = 0; token < positions.seq_len; ++token) {
      Reals here;
      for (std::int64_t axis = 0; axis < 4; ++axis) here.push_back(positions.at(axis, token));
      const double largest = *std::max_element(here.begin(), here.end());
      CAPTURE(largest);
      for (std::int64_t head = 0; head < n_head; ++head, row += width) {
        apply_multi_axis_rope(std::span(input).subspan(row, width), got, 1, head_dim, one_token(here), rope,
                              RopeLayout::half);
        double worst = 0;
        for (std::size_t i = 0; i < width; ++i) worst = std::max(worst, std::abs(got[i] - expected[row + i]));
        // ggml multiplies f32 angles up from pair to pair.
        CHECK(worst <= (largest <= 17 ? 4e-6 : largest <= 4096 ? 1.2e-3 : 1.5e-2));
      }
    }
  }
  CHECK(cases == 1);
}

TEST_CASE("which axis each pair reads") {
  CHECK(axes("mrope", 6, {1, 2, 3}) == Counts{0, 1, 1, 2, 2, 2});
  CHECK(axes("mrope", 6, {0, 6, 0}) == Counts(6, 1));
  CHECK(axes("mrope", 6, {1, 2, 2, 1}) == Counts{0, 1, 1, 2, 2, 3});
  const Counts qwen3 = axes("mrope_alternate", 64, {24, 20, 20});
  CHECK(Counts(qwen3.begin(), qwen3.begin() + 6) == Counts{0, 1, 2, 0, 1, 2});
  CHECK(Counts(qwen3.end() - 5, qwen3.end()) == Counts{2, 0, 0, 0, 0});
  CHECK(Counts{count(qwen3, 0), count(qwen3, 1), count(qwen3, 2)} == Counts{24, 20, 20});
  CHECK(axes("mrope_space_first", 6, {2, 2, 2}) == Counts{1, 2, 1, 2, 0, 0});
  CHECK(axes("vision_axial", 4, {}) == Counts{0, 0, 1, 1});
  CHECK(axes("axial_vit", 4, {}) == Counts{1, 1, 0, 0});
  CHECK(axes("mixed_vit", 4, {}) == Counts(4, -1));
}

TEST_CASE("frequencies of the vision towers that no class of transformers has, and of DINOv3") {
  const MultiAxisRope axial =
      multi_axis_rope({.form = MultiAxis::from_word("axial_vit"), .rotary_dim = 64, .rope_theta = 100});
  CHECK(frequency(axial, 1, 0) == 1);
  CHECK(frequency(axial, 0, 0) == 0);
  CHECK(frequency(axial, 1, 3) == doctest::Approx(std::pow(100, -12.0 / 64)).epsilon(1e-15));
  CHECK(frequency(axial, 0, 16 + 3) == frequency(axial, 1, 3));

  const MultiAxisRope dino =
      multi_axis_rope({.form = MultiAxis::from_word("dinov3"), .rotary_dim = 64, .rope_theta = 100});
  CHECK(2 * std::numbers::pi / frequency(dino, 0, 0) == 1);
  CHECK(2 * std::numbers::pi / frequency(dino, 0, 1) == doctest::Approx(1.3335).epsilon(1e-4));
  CHECK(2 * std::numbers::pi / frequency(dino, 1, 31) == doctest::Approx(74.99).epsilon(1e-4));

  // Each pair's frequencies on the two axes have the magnitude 10^(-4k / rotary_dim), and a twin at a right angle.
  const MultiAxisRope mixed = multi_axis_rope(
      {.form = MultiAxis::from_word("mixed_vit"), .rotary_dim = 16, .rope_theta = 10, .mixed_angle = 0.7});
  for (std::int64_t i = 0; i < 4; ++i) {
    const double y = frequency(mixed, 0, i), x = frequency(mixed, 1, i);
    CHECK(std::hypot(x, y) == doctest::Approx(std::pow(10, -static_cast<double>(i) / 4)).epsilon(1e-14));
    CHECK(std::atan2(y, x) == doctest::Approx(0.7).epsilon(1e-14));
    CHECK(frequency(mixed, 1, i + 4) == doctest::Approx(std::hypot(x, y) * std::cos(std::numbers::pi / 2 + 0.7)));
    CHECK(frequency(mixed, 0, i + 4) == doctest::Approx(std::hypot(x, y) * std::sin(std::numbers::pi / 2 + 0.7)));
  }
  const Reals here = {3, 5};
  const Reals angles = multi_axis_angles(mixed, one_token(here));
  CHECK(angles[2] == doctest::Approx(3 * frequency(mixed, 0, 2) + 5 * frequency(mixed, 1, 2)).epsilon(1e-15));
}

TEST_CASE("frequencies of a scaling take the place of ordinary ones, and text rotates as one axis does") {
  const Reals scaled = {0.5, 0.25, 0.125, 0.0625};
  const MultiAxisRope rope = multi_axis_rope(
      {.form = MultiAxis::from_word("mrope"), .rotary_dim = 8, .sections = {1, 1, 2}, .scaled_inv_freq = scaled});
  const Reals apart = {8, 16, 32};
  CHECK(multi_axis_angles(rope, one_token(apart)) == Reals{4, 4, 4, 2});
  const Reals text = {7, 7, 7};
  CHECK(multi_axis_angles(rope, one_token(text)) == Reals{3.5, 1.75, 0.875, 0.4375});
}

TEST_CASE("sections and sizes that cannot be are refused with the reason") {
  const auto problem = [](const char* form, std::int64_t n_pairs, const Counts& sections) {
    return sections_problem(MultiAxis::from_word(form), n_pairs, sections);
  };
  CHECK(problem("mrope", 64, {16, 24, 24}).empty());
  CHECK(problem("mrope_alternate", 32, {11, 11, 10}).empty());
  CHECK(problem("mrope_alternate", 64, {24, 20, 19}) == "sections 24 + 20 + 19 sum to 63, but rotary_dim / 2 is 64.");
  CHECK(problem("mrope_alternate", 32, {10, 11, 11}) ==
        "sections 10, 11, 11 cannot alternate: axis t would get 11 pairs instead of 10.");
  CHECK(problem("mrope_space_first", 6, {3, 1, 2}).find("axis h would get 2 pairs instead of 3") != std::string::npos);
  CHECK(problem("mrope", 64, {}) == "mrope needs 3 sections (or a fourth, as ggml has), but 0 are given.");
  CHECK(problem("mrope", 64, {-8, 40, 32}).find("but one is -8.") != std::string::npos);
  CHECK(problem("mrope", 64, {INT64_MAX, INT64_MAX, 66}).find("sections count pairs") != std::string::npos);
  CHECK(problem("pixtral", 64, {32, 32}) == "pixtral has no sections, but 2 are given.");

  const auto refused = [](const MultiAxisSettings& settings) {
    CHECK_THROWS_AS(multi_axis_rope(settings), std::invalid_argument);
  };
  refused({.form = MultiAxis::from_word("mrope"), .rotary_dim = 7, .sections = {1, 1, 1}});
  refused({.form = MultiAxis::from_word("pixtral"), .rotary_dim = 6});
  refused({.form = MultiAxis::from_word("pixtral"), .rotary_dim = 8, .rope_theta = 0});
  refused({.form = MultiAxis::from_word("pixtral"), .rotary_dim = 8, .scaled_inv_freq = Reals(4, 1.0)});
  refused({.form = MultiAxis::from_word("mrope"), .rotary_dim = 8, .sections = {1, 1, 1}});
  CHECK_THROWS_WITH(MultiAxis::from_word("interleaved"),
                    doctest::Contains("[multi_axis] 'interleaved' is no form of multi-axis RoPE; there are mrope, "));
  const MultiAxisRope rope = multi_axis_rope({.form = MultiAxis::from_word("pixtral"), .rotary_dim = 8});
  const Reals three = {1, 2, 3};
  CHECK_THROWS_WITH(multi_axis_angles(rope, one_token(three)),
                    "[multi_axis] positions have 3 axes, but the rotation reads 2.");
}
