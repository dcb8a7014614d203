// Doubles as the bytes of an element type.
#pragma once

#include <cstddef>
#include <span>

#include "poslab/core/element_type.h"

namespace poslab {

// Each value narrowed once, little-endian, one after another; out has values.size() * bytes_per_element(dtype) bytes.
void narrow_to_bytes(DType dtype, std::span<const double> values, std::byte* out);

}  // namespace poslab
