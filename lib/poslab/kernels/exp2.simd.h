// 2^x for x <= 0, the exponential of a softmax; included by *.kernel.cpp alone.
#pragma once

#include "poslab/kernels/simd.h"

namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE {

// a * b + c, rounded once where the instruction set can. Results differ in the last bit between instruction sets.
POSLAB_INLINE F32 multiply_add(F32 a, F32 b, F32 c) {
#if POSLAB_VECTOR_BYTES == 64
  return _mm512_fmadd_ps(a, b, c);
#elif POSLAB_VECTOR_BYTES == 32
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}
POSLAB_INLINE F64 multiply_add(F64 a, F64 b, F64 c) {
#if POSLAB_VECTOR_BYTES == 64
  return _mm512_fmadd_pd(a, b, c);
#elif POSLAB_VECTOR_BYTES == 32
  return _mm256_fmadd_pd(a, b, c);
#else
  return a * b + c;
#endif
}

// 2^f = 1 + f * polynomial(f) for |f| <= 1/2: Chebyshev fits of (2^f - 1) / f, relative error 9e-9 (f32), 2e-17 (f64).
// x = n + f with n the nearest integer, found by adding 1.5 * 2^23 (2^52), whose last bits then hold n.
// Below `least` the result is 0, so that no subnormal slows what follows; NaN stays NaN.
struct Exp2F32 {
  using V = F32;
  using I = I32;
  static constexpr float least = -125.0f, shift = 0x1.8p23f;
  static constexpr int exponent_bit = 23;
  static constexpr float coefficients[] = {0x1.44138ap-13f, 0x1.5f0890p-10f, 0x1.3b2a54p-7f,
                                           0x1.c6af6cp-5f,  0x1.ebfbe0p-3f,  0x1.62e430p-1f};
};
struct Exp2F64 {
  using V = F64;
  using I = I64;
  static constexpr double least = -1021.0, shift = 0x1.8p52;
  static constexpr int exponent_bit = 52;
  static constexpr double coefficients[] = {0x1.e9d3fe3952179p-32, 0x1.e6063f7217bc6p-28, 0x1.b524fae627834p-24,
                                            0x1.62bfd47773353p-20, 0x1.ffcbfc670dcd4p-17, 0x1.430913096fd9fp-13,
                                            0x1.5d87fe78a5276p-10, 0x1.3b2ab6fba1ddap-7,  0x1.c6b08d704a0c2p-5,
                                            0x1.ebfbdff82c598p-3,  0x1.62e42fefa39efp-1};
};

template <class Exp2>
POSLAB_INLINE typename Exp2::V exp2_nonpositive(typename Exp2::V x) {
  using V = typename Exp2::V;
  using I = typename Exp2::I;
  const V least = splat(Exp2::least);
  const V clamped = x < least ? least : x;
  const V shifted = clamped + Exp2::shift;
  const V f = clamped - (shifted - Exp2::shift);
  V polynomial = splat(Exp2::coefficients[0]);
#pragma GCC unroll 16
  for (std::size_t i = 1; i < sizeof Exp2::coefficients / sizeof Exp2::coefficients[0]; ++i) {
    polynomial = multiply_add(polynomial, f, splat(Exp2::coefficients[i]));
  }
  polynomial = multiply_add(polynomial, f, V{} + 1);
  const V power = bits_as<V>(bits_as<I>(polynomial) + (bits_as<I>(shifted) << Exp2::exponent_bit));
  return x < least ? V{} : power;
}

POSLAB_INLINE F32 exp2_nonpositive(F32 x) { return exp2_nonpositive<Exp2F32>(x); }
POSLAB_INLINE F64 exp2_nonpositive(F64 x) { return exp2_nonpositive<Exp2F64>(x); }

}  // namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE
