// The loops of convert.h for one instruction set, indexed by Storage.
#pragma once

#include <cstddef>

#include "poslab/kernels/per_isa.h"

namespace poslab::kernels {

struct ConvertKernels {
  void (*narrow_f64[3])(const double* from, std::size_t n, void* out);
  void (*narrow_f32[3])(const float* from, std::size_t n, void* out);
  void (*widen[3])(const void* from, std::size_t n, float* out);
};
POSLAB_DECLARE_PER_ISA(ConvertKernels, convert_kernels)

}  // namespace poslab::kernels
