// Which instruction set the kernels run with, chosen once per process.
#pragma once

#include <string_view>
#include <vector>

namespace poslab {

// scalar: the platform's baseline (SSE2 on x86-64, NEON on ARM); avx2: with FMA and F16C; avx512: F, BW, DQ and VL.
// In rising order of width.
enum class Isa { scalar, avx2, avx512 };
inline constexpr Isa all_isas[] = {Isa::scalar, Isa::avx2, Isa::avx512};
constexpr std::string_view to_word(Isa isa) {
  return isa == Isa::scalar ? "scalar" : isa == Isa::avx2 ? "avx2" : "avx512";
}

// What this build, CPU and operating system can run, scalar first.
std::vector<Isa> supported_isas();

// The instruction set that `wanted` names, or the widest supported one when it is empty. Throws std::invalid_argument
// "[choose_isa] ..." naming what the CPU has when the word is unknown or the CPU lacks it.
Isa choose_isa(std::string_view wanted);

// choose_isa of the environment variable POSLAB_ISA, read at the first call; throws as choose_isa does.
Isa active_isa();

}  // namespace poslab
