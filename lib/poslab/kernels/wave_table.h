// Tables of cos and sin of position * inv_freq, the stuff of position vectors and of RoPE, for long runs of
// positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "poslab/kernels/isa.h"
#include "poslab/kernels/storage.h"

namespace poslab {

// Where the waves of pair i in row r go, counted in elements.
enum class WaveLayout {
  separate,     // sines[r * stride + i] and cosines[r * stride + i]; the two may share rows
  interleaved,  // sines[r * stride + 2 i], the cosine next to it; `cosines` is not used
};

struct WaveTarget {
  Storage type = Storage::f32;
  WaveLayout layout = WaveLayout::separate;
  void* sines = nullptr;
  void* cosines = nullptr;
  std::size_t stride = 0;  // elements from one row to the next
  bool stream = false;     // past the caches, where alignment allows (64 bytes for pointers and rows)
};

// Angles are taken in double. A row at a multiple of 64 comes from the angle itself, the 63 after it by rotation: each
// value is within 4e-15 + 2.3e-16 * |position| * inv_freq of the true one, narrowed once. Every instruction set and
// every way to cut a run gives the same bits.
class WaveTable {
 public:
  // inv_freq [n_pairs], radians per token, finite; each value is multiplied by `factor`.
  explicit WaveTable(std::span<const double> inv_freq, double factor = 1, Isa isa = active_isa());

  std::size_t n_pairs() const { return n_pairs_; }

  // Rows for positions first, first + 1, ..., first + count - 1, |position| at most 2^53.
  void fill(std::int64_t first, std::int64_t count, const WaveTarget& target) const;

 private:
  std::size_t n_pairs_;
  double factor_;
  std::vector<double> inv_freq_;  // padded with zeros
  std::vector<double> steps_;     // see wave_table.kernel.h
  Isa isa_;
};

// One row for any position: cosines and sines [n_pairs], each within 1e-15 + 2.3e-16 * |position| * inv_freq of the
// true value, times `factor`; f32 is that narrowed once.
void wave_row(double position, std::span<const double> inv_freq, double factor, double* cosines, double* sines,
              Isa isa = active_isa());
void wave_row(double position, std::span<const double> inv_freq, double factor, float* cosines, float* sines,
              Isa isa = active_isa());

}  // namespace poslab
