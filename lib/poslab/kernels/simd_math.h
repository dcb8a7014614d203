// Elementary functions on the vectors of simd.h; included by *.kernel.cpp alone.
#pragma once

#include "poslab/kernels/simd.h"

namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE {

// cos and sin of |x| <= 3.2 * 2^24, each within 2.5e-16 of the true value. x less the nearest multiple of pi/2, which
// is subtracted in three parts whose products with the multiple are exact (Cody and Waite), then Taylor's series.
POSLAB_INLINE void sincos(F64 x, F64& sine, F64& cosine) {
  const F64 to_integer = splat(0x1.8p52);  // adding and subtracting it rounds to the nearest integer
  const F64 shifted = x * 0x1.45f306dc9c883p-1 + to_integer;
  const F64 turns = shifted - to_integer;
  const I64 quadrant = bits_as<I64>(shifted);  // its lowest bits hold the integer
  F64 r = x - turns * 0x1.921fb54p+0;
  r = r - turns * 0x1.10b461p-30;
  r = r - turns * 0x1.a62633145c06ep-58;

  const F64 z = r * r;
  F64 s = splat(-1.0 / 1307674368000);
  s = s * z + 1.0 / 6227020800;
  s = s * z - 1.0 / 39916800;
  s = s * z + 1.0 / 362880;
  s = s * z - 1.0 / 5040;
  s = s * z + 1.0 / 120;
  s = s * z - 1.0 / 6;
  s = s * z * r + r;
  F64 c = splat(1.0 / 20922789888000);
  c = c * z - 1.0 / 87178291200;
  c = c * z + 1.0 / 479001600;
  c = c * z - 1.0 / 3628800;
  c = c * z + 1.0 / 40320;
  c = c * z - 1.0 / 720;
  c = c * z + 1.0 / 24;
  c = c * z * z + (1.0 - 0.5 * z);

  const I64 swap = (quadrant & 1) != 0;
  const I64 sine_sign = (quadrant & 2) << 62;
  const I64 cosine_sign = ((quadrant + 1) & 2) << 62;
  sine = bits_as<F64>(bits_as<I64>(swap ? c : s) ^ sine_sign);
  cosine = bits_as<F64>(bits_as<I64>(swap ? s : c) ^ cosine_sign);
}

}  // namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE
