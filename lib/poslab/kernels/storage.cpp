#include "poslab/kernels/storage.h"

#include <unistd.h>

#include <algorithm>

namespace poslab {

bool beyond_cache(std::size_t bytes) {
  static const std::size_t limit = [] {
    long last_level = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
    last_level = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    return std::max<std::size_t>(last_level > 0 ? static_cast<std::size_t>(last_level) / 2 : 0, std::size_t{8} << 20);
  }();
  return bytes > limit;
}

}  // namespace poslab
