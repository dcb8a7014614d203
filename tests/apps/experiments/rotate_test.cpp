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

TEST_CASE("rotate: positions on several axes, as transformers' classes rotate") {
  using Counts = std::vector<std::int64_t>;
  const auto file = golden("multi_axis.json");
  int cases = 0;
  for (const auto& c : file.at("rotations")) {
    const auto name = c.at("name").get<std::string>();
    CAPTURE(name);
    const auto head_dim = c.at("head_dim").get<std::int64_t>();
    Reals x, position;
    for (std::int64_t i = 0; i < head_dim; ++i) x.push_back((static_cast<double>(37 * i % 101) - 50.5) / 32);
    for (const auto& axis : c.at("positions")) position.push_back(axis.back().get<double>());
    Settings settings = {{"vector", x},
                         {"rotary_dim", c.at("rotary_dim").get<std::int64_t>()},
                         {"rope_theta", c.at("rope_theta").get<double>()},
                         {"multi_axis", c.at("form").get<std::string>()},
                         {"axis_positions", position}};
    if (const auto sections = c.at("sections").get<Counts>(); !sections.empty()) {
      settings.push_back({"mrope_section", sections});
    }
    if (name.find("side by side") != std::string::npos) settings.push_back({"layout", "interleaved"});
    const auto ran = run_experiment("rotate", settings);
    const auto got = ran.summary<Reals>("output"), expected = c.at("output").back().get<Reals>();
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - expected[i]));
    CHECK(worst < 1e-9);
    ++cases;
  }
  CHECK(cases == 13);
}

TEST_CASE("rotate: a token of a text with an image, the axes of its pairs, and what is refused") {
  using Counts = std::vector<std::int64_t>;
  const Settings page = {{"vector", Reals{1, 2, 3, 4, 5, 6, 7, 8}},
                         {"multi_axis", "mrope"},
                         {"mrope_section", Counts{1, 1, 2}},
                         {"segments", std::vector<std::string>{"text:3", "image:2x3", "text:2"}}};
  const auto inside = run_experiment("rotate", with(page, {{"token", std::int64_t{7}}}));
  CHECK(inside.summary<Reals>("resolved_axis_positions") == Reals{3, 4, 4});
  CHECK(inside.row<std::string>(0, "axis") == "t");
  CHECK(inside.row<std::string>(3, "axis") == "w");
  CHECK(
      inside.report.conclusion.find("mrope: the vector stands at t = 3, h = 4, w = 4; of its pairs 1 read t, 1 read h, "
                                    "2 read w.") != std::string::npos);
  CHECK(run_experiment("rotate", page).summary<Reals>("resolved_axis_positions") == Reals{7, 7, 7});

  // YaRN's frequencies and its factor reach the sections too: on equal positions as on one axis.
  const Settings yarn = {{"vector", Reals{1, 2, 3, 4, 5, 6, 7, 8}},
                         {"rope_type", "yarn"},
                         {"factor", 4.0},
                         {"original_max_position_embeddings", std::int64_t{128}},
                         {"layout", "half"}};
  const auto one = run_experiment("rotate", with(yarn, {{"position", 9.0}}));
  const auto three = run_experiment("rotate", with(yarn, {{"multi_axis", "mrope_alternate"},
                                                          {"mrope_section", Counts{2, 1, 1}},
                                                          {"axis_positions", Reals{9, 9, 9}}}));
  CHECK(one.summary<Reals>("output") == three.summary<Reals>("output"));
  CHECK(three.summary<double>("attention_factor") > 1.1);

  const auto refused = [&](const Settings& settings, const char* reason) {
    CHECK_THROWS_WITH(run_experiment("rotate", settings), doctest::Contains(reason));
  };
  const Settings form = {{"vector", Reals(8, 1.0)}, {"multi_axis", "mrope"}, {"mrope_section", Counts{1, 1, 2}}};
  refused(form, "[rotate] multi_axis mrope needs axis_positions, one for each of t, h, w, or segments");
  refused(with(form, {{"axis_positions", Reals{1, 2}}}),
          "axis_positions has 2 values, but mrope has the 3 axes t, h, w");
  refused(with(form, {{"axis_positions", Reals{1, 2, 3}}, {"mrope_section", Counts{1, 1, 1}}}),
          "sections 1 + 1 + 1 sum to 3, but rotary_dim / 2 is 4.");
  refused(with(form, {{"position", 3.0}}), "with multi_axis give axis_positions");
  refused(with(form, {{"segments", std::vector<std::string>{"image:-2x3"}}}), "'image:-2x3' must be text:TOKENS");
  refused(with(page, {{"token", std::int64_t{11}}}), "token must be 0 to 10");
  refused({{"vector", Reals(8, 1.0)}, {"mrope_section", Counts{1, 1, 2}}},
          "mrope_section describes positions on several");
  refused({{"vector", Reals(8, 1.0)}, {"axis_positions", Reals{1, 2, 3}}}, "need multi_axis, the form that reads them");
  refused({{"vector", Reals(8, 1.0)}, {"multi_axis", "mrope"}, {"axis_positions", Reals{1, 2, 3}}},
          "mrope needs mrope_section");
  refused({{"vector", Reals(8, 1.0)},
           {"multi_axis", "pixtral"},
           {"rope_type", "linear"},
           {"factor", 2.0},
           {"axis_positions", Reals{1, 2}}},
          "the form of a vision tower");
}
