#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "golden.h"
#include "run_experiment.h"

using Reals = std::vector<double>;

TEST_CASE("rotate: the lesson's quarter turn, to the last bit") {
  const auto lesson = golden("lesson_quarter_turn.json");
  const auto ran = run_experiment("rotate");
  CHECK(ran.summary<Reals>("output") == Reals{lesson["new_x"].get<double>(), lesson["new_y"].get<double>()});
  CHECK(ran.summary<double>("norm_before") == lesson["hypot"][0].get<double>());
  CHECK(ran.summary<double>("norm_after") == lesson["hypot"][1].get<double>());
  CHECK(ran.summary<Reals>("angles") == Reals{lesson["angle"].get<double>()});
  CHECK(ran.report.conclusion.find("(2, 1) becomes (-1, 2).") == 0);
  CHECK(ran.report.rows.count == 1);
}

TEST_CASE("rotate: a whole vector at a position, in both layouts, and partly") {
  const Reals x = {1, 2, 3, 4};
  const auto turned = [&](const char* layout) {
    return run_experiment("rotate", {{"vector", x}, {"position", 1.0}, {"layout", layout}});
  };
  const auto close = [](const Reals& a, const Reals& b) {
    double worst = a.size() == b.size() ? 0 : HUGE_VAL;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
    return worst < 1e-6;
  };
  CHECK(close(turned("interleaved").summary<Reals>("output"), {-1.142640, 1.922076, 2.959851, 4.029800}));
  CHECK(close(turned("half").summary<Reals>("output"), {-1.984111, 1.959901, 2.462378, 4.019800}));
  CHECK(std::abs(turned("half").summary<double>("norm_after") - std::sqrt(30.0)) < 1e-14);
  CHECK(turned("half").row<std::int64_t>(1, "second_channel") == 3);
  CHECK(turned("interleaved").row<double>(1, "first_after") == turned("interleaved").summary<Reals>("output")[2]);

  const auto partial = run_experiment("rotate", {{"vector", x}, {"position", 1.0}, {"rotary_dim", std::int64_t{2}}});
  CHECK(close(partial.summary<Reals>("output"), {-1.142640, 1.922076, 3, 4}));
  CHECK(partial.summary<std::int64_t>("resolved_rotary_dim") == 2);
  CHECK(close(run_experiment("rotate", {{"vector", x}, {"angle", -1.0}, {"rotary_dim", std::int64_t{2}}})
                  .summary<Reals>("output"),
              {std::cos(1.0) + 2 * std::sin(1.0), 2 * std::cos(1.0) - std::sin(1.0), 3, 4}));
}

TEST_CASE("rotate: the scalings that models use, attention factor included") {
  int cases = 0;
  for (const auto& c : golden("rotate.json")) {
    const auto rope = c["rope_parameters"];
    const auto type = rope["rope_type"].get<std::string>();
    if (type != "yarn" && type != "linear") continue;
    CAPTURE(c["name"].get<std::string>());
    const auto input = c["input"].get<Reals>(), expected = c["output_f64"].get<Reals>();
    Settings settings = {{"vector", input},
                         {"position", c["position"].get<double>()},
                         {"layout", "half"},
                         {"rope_type", type},
                         {"rope_theta", rope["rope_theta"].get<double>()},
                         {"factor", rope["factor"].get<double>()}};
    if (type == "yarn") {
      settings.emplace_back("original_max_position_embeddings",
                            rope["original_max_position_embeddings"].get<std::int64_t>());
    }
    for (const char* key : {"mscale", "mscale_all_dim"}) {
      if (rope.contains(key)) settings.emplace_back(key, rope[key].get<double>());
    }
    const auto output = run_experiment("rotate", settings).summary<Reals>("output");
    double largest = 0;
    for (double v : input) largest = std::max(largest, std::abs(v));
    REQUIRE(output.size() == expected.size());
    for (std::size_t i = 0; i < output.size(); ++i) {
      CHECK(std::abs(output[i] - expected[i]) <= 1e-12 + 4e-16 * c["position"].get<double>() * largest);
    }
    ++cases;
  }
  CHECK(cases == 11);
}

TEST_CASE("rotate: what cannot be is refused") {
  const Reals x = {1, 2, 3, 4};
  CHECK(refusal("rotate", {{"vector", Reals{1, 2, 3}}, {"position", 1.0}}) ==
        "[rope] rotary_dim must be even and 2 .. head_dim (3) but got 3.");
  CHECK(refusal("rotate", {{"vector", x}, {"position", 1.0}, {"rotary_dim", std::int64_t{3}}}) ==
        "[rope] rotary_dim must be even and 2 .. head_dim (4) but got 3.");
  CHECK(refusal("rotate", {{"vector", x}, {"position", 1.0}, {"rotary_dim", std::int64_t{6}}}) != "");
  CHECK(refusal("rotate", {{"vector", Reals{}}}) != "");
  CHECK(refusal("rotate", {{"position", -1.0}}) == "[rotate] position must be 0 or more but got -1.");
  CHECK(refusal("rotate", {{"position", std::nan("")}}) != "");
  CHECK(refusal("rotate", {{"position", 1.0}, {"angle", 1.0}}) != "");
  CHECK(refusal("rotate", {{"vector", x}}) != "");
  CHECK(refusal("rotate", {{"vector", x}, {"angle", 1.0}}) != "");
  CHECK(refusal("rotate", {{"position", 1.0}, {"rope_theta", 0.0}}) != "");
}
