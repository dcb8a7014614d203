#include "poslab/kernels/rotation.h"

#include <cstdint>

#include "poslab/kernels/rotation.kernel.h"

namespace poslab {

void rotate_rows(const RotationRows& rows, Isa isa) {
  const auto& all = POSLAB_CHOOSE_ISA(isa, rotation_kernels);
  const auto& of_type = rows.type == Storage::f32 ? all.f32 : rows.type == Storage::bf16 ? all.bf16 : all.f16;
  const std::size_t bytes = storage_bytes(rows.type);
  // Streaming stores need aligned vectors: every row, and the second half of it, must start a cache line.
  const bool aligned = reinterpret_cast<std::uintptr_t>(rows.out) % 64 == 0 && rows.out_stride * bytes % 64 == 0 &&
                       (!rows.half || rows.n_pairs * bytes % 64 == 0);
  of_type[rows.half][rows.inverse][rows.stream && aligned && rows.out != rows.x](rows);
}

}  // namespace poslab
