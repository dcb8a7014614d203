// The loops of rotation.h for one instruction set.
#pragma once

#include "poslab/kernels/per_isa.h"
#include "poslab/kernels/rotation.h"

namespace poslab::kernels {

// Indexed by half, inverse and stream.
struct RotationKernels {
  void (*f32[2][2][2])(const RotationRows&);
  void (*bf16[2][2][2])(const RotationRows&);
  void (*f16[2][2][2])(const RotationRows&);
};
POSLAB_DECLARE_PER_ISA(RotationKernels, rotation_kernels)

}  // namespace poslab::kernels
