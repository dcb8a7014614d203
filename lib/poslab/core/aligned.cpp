#include "poslab/core/aligned.h"

#ifdef __linux__
#include <sys/mman.h>

#include <cstdint>
#endif

namespace poslab {

void prefer_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#ifdef __linux__
  constexpr std::uintptr_t huge_page = 2 << 20;
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t begin = (first + huge_page - 1) / huge_page * huge_page;
  const std::uintptr_t end = (first + bytes) / huge_page * huge_page;
  // Advice only: a refusal changes nothing but the time.
  if (begin < end) static_cast<void>(madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE));
#endif
}

}  // namespace poslab
