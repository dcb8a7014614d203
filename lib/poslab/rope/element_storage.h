// The kernels' word for an element type; they know nothing of core.
#pragma once

#include <stdexcept>

#include "poslab/core/element_type.h"
#include "poslab/kernels/storage.h"

namespace poslab {

// Throws std::invalid_argument for f64, which no kernel stores.
inline Storage storage_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return Storage::f32;
    case DType::bf16:
      return Storage::bf16;
    case DType::f16:
      return Storage::f16;
    case DType::f64:
      break;
  }
  throw std::invalid_argument("[storage_of] the kernels store f32, bf16 and f16, not f64.");
}

}  // namespace poslab
