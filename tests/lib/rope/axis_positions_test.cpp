#include "poslab/rope/axis_positions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "golden.h"

using namespace poslab;
using nlohmann::json;
using Reals = std::vector<double>;

namespace {

std::vector<Segment> segments(const std::vector<std::string>& words) { return parse_segments(words); }

Reals axis(const AxisPositions& positions, std::int64_t a) {
  const auto first = positions.values.begin() + a * positions.seq_len;
  return {first, first + positions.seq_len};
}

std::vector<Segment> segments_of(const json& list) {
  std::vector<std::string> words;
  for (const json& entry : list) {
    auto word = entry.at(0).get<std::string>() + ":";
    const std::size_t first = word == "image:" ? 2 : 1;  // an image has one frame
    for (std::size_t i = first; i < entry.size(); ++i) {
      word += (i > first ? "x" : "") + std::to_string(entry.at(i).get<int>());
    }
    words.push_back(word);
  }
  return segments(words);
}

}  // namespace

TEST_CASE("positions of text, images and videos are those of transformers' own functions") {
  int cases = 0;
  json list = golden("multi_axis.json").at("positions");  // of transformers 5, whose rule differs for long videos
  const json older = golden("axis_positions.json");
  list.insert(list.end(), older.at("positions").begin(), older.at("positions").end());
  for (const json& c : list) {
    CAPTURE(c.at("name").get<std::string>());
    ++cases;
    const auto rule = c.at("rule").get<std::string>();
    PositionSettings settings;
    settings.rule = rule == "tower" ? PositionRule::patches : from_word<PositionRule>(rule);
    settings.n_axes = static_cast<std::int64_t>(c.at("positions").size());
    settings.merge = c.value("merge", 1);
    settings.frame_step = c.value("frame_step", 1.0);
    const AxisPositions got = axis_positions(segments_of(c.at("segments")), settings);
    // A generated token comes at the largest position plus one.
    if (c.contains("delta") && rule == "max_plus_one")
      CHECK(got.next == double(got.seq_len + c.at("delta").get<int>()));
    for (std::int64_t a = 0; a < settings.n_axes; ++a) {
      CHECK(axis(got, a) == c.at("positions").at(static_cast<std::size_t>(a)).get<Reals>());
    }
  }
  CHECK(cases == 20);
}

TEST_CASE("text resumes at the largest position plus one; transformers 5.24 goes back after a long video") {
  const auto clip = segments({"text:2", "video:6x2x2", "text:3"});
  const Reals qwen = axis(axis_positions(clip, {.rule = PositionRule::max_plus_one}), 0);
  CHECK(Reals(qwen.end() - 4, qwen.end()) == Reals{7, 8, 9, 10});
  const Reals run = axis(axis_positions(clip, {.rule = PositionRule::spatial_extent}), 0);
  CHECK(Reals(run.end() - 4, run.end()) == Reals{7, 4, 5, 6});
  // For an image, and for a video no longer than its grid is wide, the two agree.
  const auto image = segments({"text:3", "image:2x4", "text:1", "video:3x2x3", "text:1"});
  CHECK(axis_positions(image, {.rule = PositionRule::max_plus_one}).values ==
        axis_positions(image, {.rule = PositionRule::spatial_extent}).values);
  CHECK(axis_positions(image, {}).next == 3 + 4 + 1 + 3 + 1);
}

TEST_CASE("V2PE's visual tokens advance by a fraction; flat positions ignore the grid; a fourth axis stays 0") {
  const auto page = segments({"text:3", "image:2x3", "text:2"});
  const AxisPositions v2pe = axis_positions(page, {.rule = PositionRule::v2pe, .n_axes = 1, .visual_step = 0.25});
  CHECK(v2pe.values == Reals{0, 1, 2, 2.25, 2.5, 2.75, 3, 3.25, 3.5, 5, 6});
  CHECK(v2pe.next == 7);
  const AxisPositions flat = axis_positions(page, {.rule = PositionRule::flat, .n_axes = 2});
  CHECK(flat.values == Reals{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const AxisPositions four = axis_positions(page, {.n_axes = 4});
  CHECK(axis(four, 2) == Reals{0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7});
  CHECK(axis(four, 3) == Reals(11, 0));
}

TEST_CASE("segments and settings that cannot be are refused with the reason") {
  const char* wrong[] = {"text",        "text:",           "text:0",     "text:-3",      "text:2x3",
                         "image:4",     "image:-2x3",      "image:2x0",  "image:1x2x3x", "video:2x3",
                         "image:2.5x3", "picture:2x2",     "image:2x 3", "image:2*3",    "",
                         "video:0x2x2", "text:99999999999"};
  for (const char* word : wrong) {
    CAPTURE(word);
    CHECK_THROWS_WITH(segments({"text:1", word}), doctest::Contains("must be text:TOKENS, image:ROWSxCOLUMNS"));
  }
  CHECK_THROWS_WITH(segments({"text:5", "video:5000x5000x5000"}), doctest::Contains("[segments] more than 16777216"));
  const auto page = segments({"text:3", "image:2x3"});
  const auto refused = [&](const PositionSettings& settings, const char* reason) {
    CHECK_THROWS_WITH(axis_positions(page, settings), doctest::Contains(reason));
  };
  refused({.n_axes = 2}, "[positions] max_plus_one gives positions on 3 axes, not on 2.");
  refused({.rule = PositionRule::patches, .n_axes = 2}, "it has no place for text");
  refused({.rule = PositionRule::patches, .n_axes = 3}, "gives positions on 2 axes");
  refused({.frame_step = -1}, "frame_step must be 0 or more but got -1.");
  refused({.rule = PositionRule::v2pe, .visual_step = 0}, "visual_step must be above 0");
  refused({.merge = 0}, "merge must be at least 1");
  CHECK_THROWS_WITH(axis_positions(segments({"image:2x3"}), {.rule = PositionRule::patches, .n_axes = 2, .merge = 2}),
                    "[positions] merge 2 does not divide a grid of 2 x 3 patches.");
}
