#include "poslab/rope/multi_axis_mistakes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

using namespace poslab;
using Reals = std::vector<double>;

namespace {

AxesQuestion question(const char* form, std::int64_t rotary_dim, std::vector<std::int64_t> sections,
                      const std::vector<std::string>& segments, PositionSettings position_settings = {}) {
  return {.settings = {.form = MultiAxis::from_word(form), .rotary_dim = rotary_dim, .sections = std::move(sections)},
          .segments = parse_segments(segments),
          .position_settings = position_settings};
}

// The first of that name whose detail begins so.
const AxesMistake& find(const std::vector<AxesMistake>& mistakes, const std::string& name,
                        const std::string& detail = "") {
  for (const AxesMistake& mistake : mistakes) {
    if (mistake.name == name && mistake.detail.rfind(detail, 0) == 0) return mistake;
  }
  throw std::logic_error("no mistake " + name);
}

std::set<std::string> names(const std::vector<AxesMistake>& mistakes, bool showing) {
  std::set<std::string> found;
  for (const AxesMistake& mistake : mistakes) {
    if (mistake.shows == showing) found.insert(mistake.name);
  }
  return found;
}

Reals axis(const AxesMistake& mistake, std::int64_t a) {
  const auto first = mistake.positions.values.begin() + a * mistake.positions.seq_len;
  return {first, first + mistake.positions.seq_len};
}

Reals angles(const AxesMistake& mistake) { return multi_axis_angles(mistake.rope, mistake.positions); }

}  // namespace

TEST_CASE("mistakes of sections are the angles of those other sections") {
  const AxesQuestion q = question("mrope_alternate", 128, {24, 20, 20}, {"text:2", "image:3x5", "text:3"});
  const auto mistakes = multi_axis_mistakes(q);
  const AxisPositions meant = axis_positions(q.segments, {});
  const auto with = [&](MultiAxisSettings s) { return multi_axis_angles(multi_axis_rope(s), meant); };
  MultiAxisSettings other = q.settings;
  other.form = MultiAxis::from_word("mrope");
  CHECK(angles(find(mistakes, "sections in blocks")) == with(other));
  const auto leftover = find(mistakes, "leftover pairs stand still");
  CHECK(leftover.detail.rfind("2 pairs", 0) == 0);
  const Reals ordinary = with(q.settings), still = angles(leftover);
  CHECK(still[61] == 0);
  CHECK(still[64 + 61] == 0);
  CHECK(still[64 + 62] == 0);
  CHECK(still[64 + 60] == ordinary[64 + 60]);
  CHECK(still[64 + 63] == ordinary[64 + 63]);

  const AxesQuestion blocks = question("mrope", 128, {16, 24, 24}, {"text:2", "image:3x5", "text:3"});
  const auto of_blocks = multi_axis_mistakes(blocks);
  other = blocks.settings;
  other.sections = {24, 16, 24};
  CHECK(angles(find(of_blocks, "section order", "sections 24, 16, 24")) == with(other));
  const Reals reset = angles(find(of_blocks, "frequency index reset in each section"));
  // Token 5: t 2, h 2, w 5.
  CHECK(reset[5 * 64] == 2);
  CHECK(reset[5 * 64 + 16] == 2);
  CHECK(reset[5 * 64 + 40] == 5);
  CHECK(reset[5 * 64 + 41] == doctest::Approx(5 * std::pow(10000.0, -1.0 / 64)).epsilon(1e-14));
  const Reals spread = angles(find(of_blocks, "frequencies spread anew in each section"));
  CHECK(spread[5 * 64 + 41] == doctest::Approx(5 * std::pow(10000.0, -1.0 / 24)).epsilon(1e-14));
}

TEST_CASE("mistakes of grids and of where text resumes") {
  const AxesQuestion q = question("mrope", 16, {2, 3, 3}, {"text:2", "video:3x1x2", "text:2"});
  const auto mistakes = multi_axis_mistakes(q);
  const auto t = [&](const char* name, const char* detail = "") { return axis(find(mistakes, name, detail), 0); };
  const auto h = [&](const char* name, const char* detail = "") { return axis(find(mistakes, name, detail), 1); };
  const auto w = [&](const char* name, const char* detail = "") { return axis(find(mistakes, name, detail), 2); };
  CHECK(axis_positions(q.segments, {}).values == Reals{0, 1, 2, 2, 3, 3, 4, 4, 5, 6,    //
                                                       0, 1, 2, 2, 2, 2, 2, 2, 5, 6,    //
                                                       0, 1, 2, 3, 2, 3, 2, 3, 5, 6});  // t, h, w
  CHECK(t("text resumes at the token count") == Reals{0, 1, 2, 2, 3, 3, 4, 4, 8, 9});
  CHECK(t("text resumes without the plus one") == Reals{0, 1, 2, 2, 3, 3, 4, 4, 4, 5});
  CHECK(find(mistakes, "text resumes at the grid's extent").positions.values ==
        axis_positions(q.segments, {.rule = PositionRule::spatial_extent}).values);
  CHECK(t("grid from 0") == Reals{0, 1, 0, 0, 1, 1, 2, 2, 5, 6});
  CHECK(t("frames not counted") == Reals{0, 1, 2, 2, 2, 2, 2, 2, 5, 6});
  CHECK(h("grid off by one", "rows +1") == Reals{0, 1, 3, 3, 3, 3, 3, 3, 5, 6});
  CHECK(w("grid off by one", "rows +1") == Reals{0, 1, 2, 3, 2, 3, 2, 3, 5, 6});
  CHECK(w("grid off by one", "rows and columns -1") == Reals{0, 1, 1, 2, 1, 2, 1, 2, 5, 6});
  CHECK(h("axes swapped", "h and w") == Reals{0, 1, 2, 3, 2, 3, 2, 3, 5, 6});
  CHECK(h("one axis alone") == Reals{0, 1, 2, 2, 3, 3, 4, 4, 5, 6});
  CHECK(w("flat positions") == Reals{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});

  const auto page = multi_axis_mistakes(question("mrope", 16, {2, 3, 3}, {"text:1", "image:2x3"}));
  CHECK(axis(find(page, "grid read column by column"), 1) == Reals{0, 1, 2, 1, 2, 1, 2});
  CHECK(axis(find(page, "grid read column by column"), 2) == Reals{0, 1, 1, 2, 2, 3, 3});
  // The other rule's reader is told of this one's mistake, and the first rule's of the other's.
  const auto run = multi_axis_mistakes(
      question("mrope", 16, {2, 3, 3}, {"text:2", "video:3x1x2", "text:2"}, {.rule = PositionRule::spatial_extent}));
  CHECK(find(run, "text resumes past the last frame").positions.values == axis_positions(q.segments, {}).values);
}

TEST_CASE("mistakes of vision towers") {
  const PositionSettings blocks{.rule = PositionRule::patches, .n_axes = 2, .merge = 2};
  const auto tower = multi_axis_mistakes(question("vision_axial", 16, {}, {"image:2x4"}, blocks));
  CHECK(axis(find(tower, "merge blocks ignored"), 0) == Reals{0, 0, 0, 0, 1, 1, 1, 1});
  const Reals on = angles(find(tower, "frequencies run on over the axes"));
  CHECK(on[7 * 8 + 4] == doctest::Approx(3 * std::pow(10000.0, -8.0 / 16)).epsilon(1e-14));
  const Reals pixtral = angles(find(tower, "frequencies of another form", "those of pixtral"));
  CHECK(pixtral[7 * 8 + 4] == doctest::Approx(3 * std::pow(10000.0, -2.0 / 16)).epsilon(1e-14));

  const PositionSettings centres{.rule = PositionRule::patch_centres, .n_axes = 2};
  const auto dino = multi_axis_mistakes(question("dinov3", 8, {}, {"image:1x2"}, centres));
  CHECK(axis(find(dino, "coordinates from 0 to 1"), 1) == Reals{0.25, 0.75});
  CHECK(axis(find(dino, "corners for centres"), 1) == Reals{-1, 0});
  CHECK(axis(find(dino, "both axes by the longer side"), 0) == Reals{0, 0});
  CHECK(angles(find(dino, "factor 2 pi missing"))[2] == -0.5);
}

TEST_CASE("positions that hide a mistake say so, and positions alone are enough for the rest") {
  const auto text = multi_axis_mistakes(question("mrope", 16, {2, 3, 3}, {"text:5"}));
  const std::set<std::string> shown = names(text, true), hidden = names(text, false);
  CHECK(shown ==
        std::set<std::string>{"frequency index reset in each section", "frequencies spread anew in each section"});
  CHECK(hidden.count("axes swapped") == 1);
  CHECK(hidden.count("section order") == 1);

  AxesQuestion alone = question("mrope", 16, {2, 3, 3}, {"text:1", "image:2x3", "text:1"});
  const auto full = names(multi_axis_mistakes(alone), true);
  CHECK(full.count("grid off by one") == 1);
  CHECK(full.count("frames not counted") == 0);
  alone.positions = axis_positions(alone.segments, {});
  alone.segments.clear();
  const auto some = names(multi_axis_mistakes(alone), true);
  CHECK(some.count("axes swapped") == 1);
  CHECK(some.count("grid off by one") == 0);
  CHECK(std::includes(full.begin(), full.end(), some.begin(), some.end()));

  alone.positions.n_axes = 2;
  alone.positions.seq_len = 12;
  CHECK_THROWS_AS(multi_axis_mistakes(alone), std::invalid_argument);
}
