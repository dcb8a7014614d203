// Which channels an engine takes as one pair, where it writes them, and by which 2x2 map of cos and sin.
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "poslab/rope/rope.h"

namespace poslab {

// [y_first, y_second] = [[aa, ab], [ba, bb]] [x_first, x_second]
struct PairMap {
  double aa = 1, ab = 0, ba = 0, bb = 1;
};

// The maps that engines were seen to use, a = x_first, b = x_second:
//   rotation            a cos - b sin, b cos + a sin
//   swapped             cos and sin in each other's place
//   minus_missing       a cos + b sin, b cos + a sin
//   second_minus        a cos - b sin, b cos - a sin
//   first_overwritten   rotation, but the second member reads the first after it was written
//   second_overwritten  the other way round
enum class PairForm { rotation, swapped, minus_missing, second_minus, first_overwritten, second_overwritten };

PairMap pair_map(PairForm form, std::complex<double> first, std::complex<double> second);

struct Pairing {
  RopeLayout read = RopeLayout::half, write = RopeLayout::half;
  RopeLayout table = RopeLayout::half;  // the layout for which the columns of cos and sin were repeated
  std::int64_t rotary_dim = 0;
  std::int64_t first_channel = 0;  // of the block that rotates
  PairForm form = PairForm::rotation;
  std::string mistake;  // empty: as meant

  std::int64_t n_pairs() const { return rotary_dim / 2; }
  PairChannels in(std::int64_t pair) const { return shifted(rope_pair_channels(read, rotary_dim, pair)); }
  PairChannels out(std::int64_t pair) const { return shifted(rope_pair_channels(write, rotary_dim, pair)); }
  // The pairs whose cos and sin the two members get: both `pair`, unless the table belongs to another layout.
  std::pair<std::int64_t, std::int64_t> columns(std::int64_t pair) const;
  // cos + i sin out of a pair before and after, which the form gives as the solution of two equations; `weight` is the
  // equations' determinant relative to |x|^2, 0 where they say nothing.
  struct Solved {
    std::complex<double> value;
    double weight = 0;
  };
  Solved solve(double xa, double xb, double ya, double yb) const;
  bool own_table() const { return table == read; }

 private:
  PairChannels shifted(PairChannels c) const { return {c.first + first_channel, c.second + first_channel}; }
};

Pairing plain_pairing(RopeLayout layout, std::int64_t rotary_dim);

// What was meant, then what engines do in its place, each with its name.
std::vector<Pairing> known_pairings(const Pairing& meant, std::int64_t head_dim);

}  // namespace poslab
