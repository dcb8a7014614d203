// What implementations of multi-axis RoPE get wrong, each with its name, as angles to compare with.
#pragma once

#include <string>
#include <vector>

#include "poslab/rope/axis_positions.h"
#include "poslab/rope/multi_axis.h"

namespace poslab {

// What was meant. Without segments the positions are those given, and mistakes in counting grids are left out.
struct AxesQuestion {
  MultiAxisSettings settings;
  std::vector<Segment> segments = {};
  PositionSettings position_settings = {};
  AxisPositions positions = {};  // read only where segments is empty
};

// The angles of a mistake are multi_axis_angles(rope, positions).
struct AxesMistake {
  std::string name;    // "section order", "axes swapped", "grid off by one", ...
  std::string detail;  // the values behind it, for a reader
  MultiAxisRope rope;
  AxisPositions positions;
  bool shows = true;  // some cos or sin differs by more than 1e-9 from what was meant, at these positions
};

// Names. Of sections: section order, sections in blocks, sections alternate, frequency index reset in each section,
// frequencies spread anew in each section, leftover pairs stand still. Of towers: frequencies of another form,
// frequencies run on over the axes, factor 2 pi missing. Of axes: axes swapped, one axis alone, flat positions. Of
// grids: grid off by one, grid from 0, grid read column by column, frames not counted, merge blocks ignored, merge
// blocks of 2, coordinates from 0 to 1, corners for centres, both axes by the longer side. Of text after a grid: text
// resumes at the token count, ... without the plus one, ... at the grid's extent, ... past the last frame.
//
// Throws as multi_axis_rope and axis_positions do for what was meant.
std::vector<AxesMistake> multi_axis_mistakes(const AxesQuestion& question);

}  // namespace poslab
