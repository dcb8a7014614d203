// The loops of sum.h for one instruction set.
#pragma once

#include <cstddef>

#include "poslab/kernels/per_isa.h"

namespace poslab::kernels {

struct SumKernels {
  double (*sum_f64)(const double* x, std::size_t n);
  double (*sum_f32)(const float* x, std::size_t n);
  double (*dot_f64)(const double* x, const double* y, std::size_t n);
  double (*dot_f32)(const float* x, const float* y, std::size_t n);
};
POSLAB_DECLARE_PER_ISA(SumKernels, sum_kernels)

}  // namespace poslab::kernels
