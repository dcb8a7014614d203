// The end of a forward pass where the logits themselves are not wanted: vocabularies of 10^5 tokens go by in tiles that
// stay in the caches, so that no row of logits ever stands in memory whole.
#pragma once

#include <cstdint>
#include <span>

#include "poslab/models/transformer.h"

namespace poslab {

// Rows worth giving to one call, and the numbers it computes in.
inline constexpr std::int64_t score_rows_at_once = 512;
std::int64_t score_scratch();

// scores[r] = what softmax(head x_r) says of targets[r], for the rows that have one.
//
//   x     [rows, d_model]      normed, rows <= score_rows_at_once
//   head  [vocab_size, d_model]
template <class T>
void score_rows(std::int64_t d_model, std::int64_t vocab_size, const T* x, const T* head,
                std::span<const std::int64_t> targets, std::span<TokenScore> scores, T* scratch);

}  // namespace poslab
