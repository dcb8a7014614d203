// The files that `probe` reads: vectors, tables or frequencies out of an engine, checked and brought into order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "poslab/formats/npy.h"
#include "poslab/probe/vectors.h"
#include "poslab/rope/rope.h"

namespace poslab {

// Positions, [places], [batch, places] or [1, ..., 1, places].
NpyArray<double> read_positions(const std::string& path);

// Vectors before and after; `dump` points into the arrays.
struct LoadedVectors {
  NpyArray<double> input, output;
  VectorDump dump;
};

// output: [..., places, ..., head_dim], or with a head_dim also [..., places, heads * head_dim]; input: the same shape,
// one that numpy would broadcast to it, or fewer heads, each repeated for its neighbours (grouped keys). The axis of
// the places is the one before the last, or before the heads; another where only that has as many entries as there are
// positions. The first of four axes counts batch rows. Without positions they are 0, 1, 2, ... Paths are read_array's.
// Throws std::invalid_argument "[probe] ..." for shapes that do not fit each other, an odd head_dim, and values that
// are not finite, saying where.
LoadedVectors load_vectors(const std::string& input_path, const std::string& output_path,
                           const std::optional<NpyArray<double>>& positions,
                           std::optional<std::int64_t> head_dim = std::nullopt);

// Turned unit vectors, [..., places, head_dim, head_dim] or without places: entry [s, j] is unit vector j after its
// turn.
LoadedVectors load_unit_vectors(const std::string& path, const std::optional<NpyArray<double>>& positions);

// A table as vectors: pairs (1, 0) before, (cos, sin) after, in the half layout.
struct LoadedTable {
  LoadedVectors vectors;
  std::optional<RopeLayout> layout;  // how the table repeats its columns; absent: it has each once
};

// cos and sin, [places, n]; n is rotary_dim, each column twice (in halves, or side by side), or rotary_dim / 2.
LoadedTable load_table(const std::string& cos_path, const std::string& sin_path,
                       const std::optional<NpyArray<double>>& positions);

// [rotary_dim / 2], not negative.
std::vector<double> load_inv_freq(const std::string& path);

}  // namespace poslab
