// Element types converted in bulk: round to nearest, ties to even, once; a NaN stays one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "poslab/kernels/isa.h"
#include "poslab/kernels/storage.h"

namespace poslab {

// out [from.size()] elements of `type`.
void narrow(std::span<const double> from, Storage type, void* out, Isa isa = active_isa());
void narrow(std::span<const float> from, Storage type, void* out, Isa isa = active_isa());

// from [out.size()] elements of `type`.
void widen(const void* from, Storage type, std::span<float> out, Isa isa = active_isa());

}  // namespace poslab
