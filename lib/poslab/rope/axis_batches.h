// The positions that an engine gives to tokens which it reads in several passes.
#pragma once

#include <cstdint>
#include <span>

#include "poslab/core/fields.h"
#include "poslab/rope/axis_positions.h"

namespace poslab {

//   whole   as the rule says for the whole text, wherever a pass ends
//   tokens  a decoded token gets the number of tokens before it, not the largest position plus one
//   batch   each pass counts on from the largest position before it plus one, and takes the rest of an image for an
//   image
//           of its own
//   slice   the prompt's positions stand in one list, axis after axis, and a pass reads its own from there on as if the
//           list held its tokens alone (ik_llama.cpp, pull request 1907: "misapplied when an image crosses a chunk
//           boundary")
enum class AxisCounting { whole, tokens, batch, slice };
constexpr auto words(AxisCounting) {
  return word_table<AxisCounting>({{AxisCounting::whole, "whole"},
                                   {AxisCounting::tokens, "tokens"},
                                   {AxisCounting::batch, "batch"},
                                   {AxisCounting::slice, "slice"}});
}

// The first prompt_len tokens are read in passes of batch_size, the others one by one. Throws std::invalid_argument
// "[positions] ..." as axis_positions does, for a prompt_len outside 1 .. tokens, a batch_size below 1, and for a
// counting other than `whole` under a rule that is not max_plus_one or spatial_extent.
AxisPositions counted_positions(std::span<const Segment> segments, const PositionSettings& settings,
                                std::int64_t prompt_len, std::int64_t batch_size, AxisCounting counting);

}  // namespace poslab
