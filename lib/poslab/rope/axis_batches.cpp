#include "poslab/rope/axis_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace poslab {
namespace {

double& at(AxisPositions& positions, std::int64_t axis, std::int64_t token) {
  return positions.values[static_cast<std::size_t>(axis * positions.seq_len + token)];
}

// The ends of the passes.
std::vector<std::int64_t> passes(std::int64_t seq_len, std::int64_t prompt_len, std::int64_t batch_size) {
  std::vector<std::int64_t> ends;
  for (std::int64_t end = 0; end < prompt_len;) ends.push_back(end += std::min(batch_size, prompt_len - end));
  for (std::int64_t token = prompt_len; token < seq_len; ++token) ends.push_back(token + 1);
  return ends;
}

void count_batches(std::span<const Segment> segments, const PositionSettings& settings,
                   const std::vector<std::int64_t>& ends, AxisPositions& positions) {
  std::int64_t token = 0;
  double next = 0;
  auto end = ends.begin();
  for (const Segment& s : segments) {
    for (std::int64_t left = s.tokens(); left > 0;) {
      while (*end == token) ++end;
      const std::int64_t piece = std::min(left, *end - token);
      double largest = next;
      for (std::int64_t i = 0; i < piece; ++i, ++token) {
        const std::int64_t in_frame = i % (s.rows * s.columns);
        const double text = static_cast<double>(i);
        const double place[] = {
            s.text ? text : std::floor(static_cast<double>(i / (s.rows * s.columns)) * settings.frame_step),
            s.text ? text : static_cast<double>(in_frame / s.columns),
            s.text ? text : static_cast<double>(in_frame % s.columns)};
        for (std::int64_t axis = 0; axis < 3; ++axis) {
          largest = std::max(largest, at(positions, axis, token) = next + place[axis]);
        }
      }
      next = largest + 1;
      left -= piece;
    }
  }
}

void cut_slices(const std::vector<std::int64_t>& ends, std::int64_t prompt_len, AxisPositions& positions) {
  std::vector<double> list;
  for (std::int64_t axis = 0; axis < positions.n_axes; ++axis) {
    for (std::int64_t token = 0; token < prompt_len; ++token) list.push_back(positions.at(axis, token));
  }
  std::int64_t first = 0;
  for (const std::int64_t end : ends) {
    if (end > prompt_len) return;
    for (std::int64_t axis = 0; axis < positions.n_axes; ++axis) {
      for (std::int64_t token = first; token < end; ++token) {
        at(positions, axis, token) = list[static_cast<std::size_t>(axis * (end - first) + token)];
      }
    }
    first = end;
  }
}

}  // namespace

AxisPositions counted_positions(std::span<const Segment> segments, const PositionSettings& settings,
                                std::int64_t prompt_len, std::int64_t batch_size, AxisCounting counting) {
  AxisPositions positions = axis_positions(segments, settings);
  if (prompt_len < 1 || prompt_len > positions.seq_len) {
    throw std::invalid_argument(
        fmt::format("[positions] prompt_len must be 1 to {} but got {}.", positions.seq_len, prompt_len));
  }
  if (batch_size < 1) {
    throw std::invalid_argument(fmt::format("[positions] batch_size must be at least 1 but got {}.", batch_size));
  }
  if (counting == AxisCounting::whole) return positions;
  if (settings.rule != PositionRule::max_plus_one && settings.rule != PositionRule::spatial_extent) {
    throw std::invalid_argument(fmt::format("[positions] the mistake '{}' is one of grids, which {} does not count.",
                                            to_word(counting), to_word(settings.rule)));
  }
  const std::vector<std::int64_t> ends = passes(positions.seq_len, prompt_len, batch_size);
  if (counting == AxisCounting::batch) count_batches(segments, settings, ends, positions);
  if (counting == AxisCounting::slice) cut_slices(ends, prompt_len, positions);
  if (counting == AxisCounting::tokens) {
    for (std::int64_t axis = 0; axis < 3; ++axis) {
      for (std::int64_t token = prompt_len; token < positions.seq_len; ++token) {
        at(positions, axis, token) = static_cast<double>(token);
      }
    }
  }
  return positions;
}

}  // namespace poslab
