// The loops of wave_table.h for one instruction set.
#pragma once

#include <cstddef>

#include "poslab/kernels/per_isa.h"

namespace poslab::kernels {

constexpr std::size_t wave_padding = 16;  // arrays over pairs are padded to a multiple of it
constexpr std::size_t wave_block = 64;    // rows between two angles that are taken afresh
constexpr std::size_t wave_steps = 4;     // rows rotated from one row

struct WaveBlock {
  double position = 0;                     // of row 0
  std::size_t first_row = 0, end_row = 0;  // rows to write, within wave_block
  const double* inv_freq = nullptr;        // [padded]
  const double* steps = nullptr;           // [wave_steps, 2, padded]: cos and sin of k inv_freq, k = 1 .. wave_steps
  const double* anchors = nullptr;         // [2, padded]: cos and sin of row 0 where angles are too large for sincos
  std::size_t n_pairs = 0, padded = 0;
  double factor = 1;
  unsigned char* sines = nullptr;  // of first_row
  unsigned char* cosines = nullptr;
  std::size_t row_bytes = 0;
};

// Indexed by layout (separate, interleaved) and by whether stores stream.
struct WaveTableKernels {
  void (*f32[2][2])(const WaveBlock&);
  void (*bf16[2][2])(const WaveBlock&);
  void (*f16[2][2])(const WaveBlock&);
  void (*row_f64)(double position, const double* inv_freq, std::size_t n_pairs, double factor, double* cosines,
                  double* sines);
  void (*row_f32)(double position, const double* inv_freq, std::size_t n_pairs, double factor, float* cosines,
                  float* sines);
};
POSLAB_DECLARE_PER_ISA(WaveTableKernels, wave_table_kernels)

}  // namespace poslab::kernels
