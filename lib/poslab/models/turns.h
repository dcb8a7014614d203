// What the positions of a text turn: cos and sin of every pair, made once per run.
#pragma once

#include <cstdint>

#include "poslab/core/aligned.h"
#include "poslab/models/transformer_config.h"
#include "poslab/rope/scaling.h"

namespace poslab {

// cos and sin of every position and pair, as they multiply queries and keys.
template <class T>
struct Turns {
  std::int64_t n_pairs = 0;
  AlignedBuffer<T> cosines, sines;          // [seq_len, n_pairs]
  AlignedBuffer<T> key_cosines, key_sines;  // the same for the keys where they differ, else empty
};

// Throws std::invalid_argument "[transformer] ..." when the pairs do not fit in a head.
template <class T>
Turns<T> make_turns(const TransformerConfig& config, const RopeFrequencies& rope, std::int64_t seq_len);

// Turns the pairs of `rows` heads in place, the first at `x`, each `stride` after the last.
template <class T>
void turn(RopeLayout layout, bool inverse, T* x, std::int64_t stride, std::int64_t rows, std::int64_t n_pairs,
          const T* cosines, const T* sines);

}  // namespace poslab
