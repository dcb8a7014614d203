#include "poslab/kernels/isa.h"

#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace poslab {

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas = {Isa::scalar};
#ifdef __x86_64__
  // The builtin also asks XGETBV whether the operating system saves the wide registers.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
    isas.push_back(Isa::avx2);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      isas.push_back(Isa::avx512);
    }
  }
#endif
  return isas;
}

Isa choose_isa(std::string_view wanted) {
  const std::vector<Isa> isas = supported_isas();
  if (wanted.empty()) return isas.back();
  std::string have;
  for (Isa isa : isas) {
    if (to_word(isa) == wanted) return isa;
    have += have.empty() ? "" : ", ";
    have += to_word(isa);
  }
  for (Isa isa : all_isas) {
    if (to_word(isa) == wanted) {
      throw std::invalid_argument(
          fmt::format("[choose_isa] POSLAB_ISA asks for {} but this CPU has only {}.", wanted, have));
    }
  }
  throw std::invalid_argument(
      fmt::format("[choose_isa] POSLAB_ISA must be an instruction set of this CPU ({}) but got '{}'.", have, wanted));
}

Isa active_isa() {
  static const Isa isa = [] {
    const char* wanted = std::getenv("POSLAB_ISA");
    return choose_isa(wanted ? wanted : "");
  }();
  return isa;
}

}  // namespace poslab
