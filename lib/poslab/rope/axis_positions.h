// The positions of text, images and videos on several axes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "poslab/core/fields.h"

namespace poslab {

// How tokens get their positions. Text is equal on all axes and advances by one; `grid` is that of an image or a video
// in tokens, after the vision tower has merged its patches.
//
//   max_plus_one    a grid begins where the text ends: t + frame, h + row, w + column; what follows resumes at the
//                   largest position of any axis plus one (Qwen2-VL, arXiv:2409.12191, section 2.1;
//                   transformers 4.57.1's get_rope_index, run)
//   spatial_extent  the same, but what follows resumes max(rows, columns) after the grid's first position, so that text
//                   after a video longer than that goes back (transformers 5.24's get_rope_index, run)
//   flat            every token is one further, grids too, on all axes: a text model's positions
//   v2pe            all axes equal; tokens of a grid advance by visual_step, and what follows resumes at the next whole
//                   number (V2PE, arXiv:2412.09616, and its authors' code)
//   patches         h = row, w = column from 0 for each image, row by row; with `merge` in blocks of merge x merge
//                   patches (vision towers; Qwen2-VL's has merge 2)
//   patch_centres   h = 2 (row + 1/2) / rows - 1, w likewise, in [-1, 1] (DINOv3)
enum class PositionRule { max_plus_one, spatial_extent, flat, v2pe, patches, patch_centres };
constexpr auto words(PositionRule) {
  return word_table<PositionRule>({{PositionRule::max_plus_one, "max_plus_one"},
                                   {PositionRule::spatial_extent, "spatial_extent"},
                                   {PositionRule::flat, "flat"},
                                   {PositionRule::v2pe, "v2pe"},
                                   {PositionRule::patches, "patches"},
                                   {PositionRule::patch_centres, "patch_centres"}});
}

// A stretch of text, or an image or video of frames x rows x columns tokens.
struct Segment {
  bool text = true;
  std::int64_t frames = 1, rows = 1, columns = 1;  // of a text, columns counts its tokens
  std::int64_t tokens() const { return frames * rows * columns; }
};

// "text:4", "image:2x3" (rows x columns), "video:4x2x3" (frames x rows x columns). Throws std::invalid_argument
// "[segments] ..." for other words, for sizes that are no whole numbers from 1 on, and for more than 2^24 tokens in
// all.
std::vector<Segment> parse_segments(std::span<const std::string> words);

struct AxisPositions {
  std::int64_t n_axes = 0, seq_len = 0;
  std::vector<double> values;  // [n_axes, seq_len]
  double next = 0;             // of the token that would follow, on every axis
  double at(std::int64_t axis, std::int64_t token) const {
    return values[static_cast<std::size_t>(axis * seq_len + token)];
  }
};

struct PositionSettings {
  PositionRule rule = PositionRule::max_plus_one;
  std::int64_t n_axes = 3;  // t, h, w (a fourth axis stays 0); h, w for patches and patch_centres
  double frame_step = 1;    // positions from frame to frame, rounded down (Qwen2.5-VL: tokens_per_second * seconds)
  double visual_step = 0.25;
  std::int64_t merge = 1;
};

// Throws std::invalid_argument "[positions] ..." for text where the rule knows images alone, a step that is not finite
// or below 0, rows or columns that merge does not divide, and numbers of axes other than the rule's.
AxisPositions axis_positions(std::span<const Segment> segments, const PositionSettings& settings);

// One token whose position on each axis is given.
AxisPositions one_token(std::span<const double> position);

}  // namespace poslab
