#include "poslab/kernels/convert.h"

#include "poslab/kernels/convert.kernel.h"

namespace poslab {

void narrow(std::span<const double> from, Storage type, void* out, Isa isa) {
  POSLAB_CHOOSE_ISA(isa, convert_kernels).narrow_f64[static_cast<std::size_t>(type)](from.data(), from.size(), out);
}

void narrow(std::span<const float> from, Storage type, void* out, Isa isa) {
  POSLAB_CHOOSE_ISA(isa, convert_kernels).narrow_f32[static_cast<std::size_t>(type)](from.data(), from.size(), out);
}

void widen(const void* from, Storage type, std::span<float> out, Isa isa) {
  POSLAB_CHOOSE_ISA(isa, convert_kernels).widen[static_cast<std::size_t>(type)](from, out.size(), out.data());
}

}  // namespace poslab
