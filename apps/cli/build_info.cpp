#include "cli/build_info.h"

#include <fmt/format.h>

#include "poslab/kernels/blas.h"
#include "poslab/kernels/isa.h"
#include "poslab_revision.h"

namespace poslab::cli {

std::string_view version() { return POSLAB_VERSION; }
std::string_view revision() { return POSLAB_REVISION; }

std::string_view compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

std::string version_text() {
  return fmt::format("poslab {}\nrevision  {}\ncompiler  {}\nisa       {}\nblas      {}\n", version(), revision(),
                     compiler(), to_word(active_isa()), blas_name());
}

}  // namespace poslab::cli
