// Element types that the kernels read and write, and where their stores bypass the caches.
#pragma once

#include <cstddef>

namespace poslab {

enum class Storage { f32, bf16, f16 };

constexpr std::size_t storage_bytes(Storage type) { return type == Storage::f32 ? 4 : 2; }

// Whether writing so many bytes in one go would evict more than it keeps, so that streaming stores serve better.
bool beyond_cache(std::size_t bytes);

}  // namespace poslab
