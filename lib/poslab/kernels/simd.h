// Vectors of the instruction set that a kernel source is compiled for; included by *.kernel.cpp alone.
//
// GCC's vector extension rather than xsimd or intrinsics throughout: the same lines serve SSE2, AVX2, AVX-512 and
// NEON, the arithmetic obeys -ffp-contract=off (so that all instruction sets round alike, bit for bit), and nothing
// is instantiated from a library header, which an object of one instruction set must not share (per_isa.h).
// Intrinsics only where the extension has no word: streaming stores and f16 conversion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define POSLAB_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define POSLAB_VECTOR_BYTES 32
#else
#define POSLAB_VECTOR_BYTES 16
#endif

#define POSLAB_INLINE static inline __attribute__((always_inline, unused))

namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE {

constexpr std::size_t f32_lanes = POSLAB_VECTOR_BYTES / 4;
constexpr std::size_t f64_lanes = POSLAB_VECTOR_BYTES / 8;

typedef float F32 __attribute__((vector_size(POSLAB_VECTOR_BYTES)));
typedef double F64 __attribute__((vector_size(POSLAB_VECTOR_BYTES)));
typedef std::uint32_t U32 __attribute__((vector_size(POSLAB_VECTOR_BYTES)));
typedef std::int32_t I32 __attribute__((vector_size(POSLAB_VECTOR_BYTES)));
typedef std::int64_t I64 __attribute__((vector_size(POSLAB_VECTOR_BYTES)));
// As many lanes as F32 has.
typedef std::uint16_t U16 __attribute__((vector_size(POSLAB_VECTOR_BYTES / 2)));
// As many lanes as F64 has.
typedef float HalfF32 __attribute__((vector_size(POSLAB_VECTOR_BYTES / 2)));

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  using V = F32;
};
template <>
struct VectorOf<double> {
  using V = F64;
};
template <class T>
constexpr std::int64_t lanes = POSLAB_VECTOR_BYTES / sizeof(T);

template <class V, class T>
POSLAB_INLINE V load(const T* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <class V, class T>
POSLAB_INLINE void store(T* to, V v) {
  std::memcpy(to, &v, sizeof v);
}

// The same bits as another vector type.
template <class To, class From>
POSLAB_INLINE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

POSLAB_INLINE F32 splat(float x) { return x - F32{}; }
POSLAB_INLINE F64 splat(double x) { return x - F64{}; }

// Conversions between lane widths, each one instruction; g++ 12 splits them where the wider type has 64 bytes. The
// maskz forms spare its false warnings about uninitialised registers.
#if POSLAB_VECTOR_BYTES == 64
constexpr __mmask16 all_lanes = 0xffff;
POSLAB_INLINE U32 widen(U16 v) { return bits_as<U32>(_mm512_maskz_cvtepu16_epi32(all_lanes, bits_as<__m256i>(v))); }
POSLAB_INLINE U16 narrow(U32 v) { return bits_as<U16>(_mm512_maskz_cvtepi32_epi16(all_lanes, bits_as<__m512i>(v))); }
POSLAB_INLINE F64 widen(HalfF32 v) { return bits_as<F64>(_mm512_maskz_cvtps_pd(0xff, bits_as<__m256>(v))); }
#else
POSLAB_INLINE U32 widen(U16 v) { return __builtin_convertvector(v, U32); }
POSLAB_INLINE U16 narrow(U32 v) { return __builtin_convertvector(v, U16); }
POSLAB_INLINE F64 widen(HalfF32 v) { return __builtin_convertvector(v, F64); }
#endif
#if POSLAB_VECTOR_BYTES > 16
constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
#endif

// Evens and odds of the 2n values first, second; zip undoes unzip.
POSLAB_INLINE void unzip(F32 first, F32 second, F32& even, F32& odd) {
#if POSLAB_VECTOR_BYTES == 64
  even = __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  odd = __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif POSLAB_VECTOR_BYTES == 32
  even = __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14);
  odd = __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15);
#else
  even = __builtin_shufflevector(first, second, 0, 2, 4, 6);
  odd = __builtin_shufflevector(first, second, 1, 3, 5, 7);
#endif
}

POSLAB_INLINE void zip(F32 even, F32 odd, F32& first, F32& second) {
#if POSLAB_VECTOR_BYTES == 64
  first = __builtin_shufflevector(even, odd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  second = __builtin_shufflevector(even, odd, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#elif POSLAB_VECTOR_BYTES == 32
  first = __builtin_shufflevector(even, odd, 0, 8, 1, 9, 2, 10, 3, 11);
  second = __builtin_shufflevector(even, odd, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  first = __builtin_shufflevector(even, odd, 0, 4, 1, 5);
  second = __builtin_shufflevector(even, odd, 2, 6, 3, 7);
#endif
}

// Stores past the caches; `to` is aligned to a vector. Another thread may read after stream_fence().
POSLAB_INLINE void stream(void* to, F32 v) {
#if POSLAB_VECTOR_BYTES == 64
  _mm512_stream_ps(static_cast<float*>(to), bits_as<__m512>(v));
#elif POSLAB_VECTOR_BYTES == 32
  _mm256_stream_ps(static_cast<float*>(to), bits_as<__m256>(v));
#elif defined(__SSE2__)
  _mm_stream_ps(static_cast<float*>(to), bits_as<__m128>(v));
#else
  store(static_cast<float*>(to), v);
#endif
}

// The same for half a vector, which fills a cache line with its neighbours.
POSLAB_INLINE void stream(void* to, U16 v) {
#if POSLAB_VECTOR_BYTES == 64
  _mm256_stream_si256(static_cast<__m256i*>(to), bits_as<__m256i>(v));
#elif POSLAB_VECTOR_BYTES == 32
  _mm_stream_si128(static_cast<__m128i*>(to), bits_as<__m128i>(v));
#elif defined(__x86_64__)
  _mm_stream_si64(static_cast<long long*>(to), bits_as<long long>(v));
#else
  store(static_cast<std::uint16_t*>(to), v);
#endif
}

POSLAB_INLINE void stream_fence() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

POSLAB_INLINE F32 f32_from_bf16(U16 bits) { return bits_as<F32>(widen(bits) << 16); }

// The nearest bf16, ties to even, in the upper half of each lane (the lower half is left over); a NaN becomes quiet.
POSLAB_INLINE U32 bf16_in_high_half(F32 v) {
  const U32 u = bits_as<U32>(v);
  return v == v ? u + 0x7fffU + ((u >> 16) & 1U) : u | 0x00400000U;
}

POSLAB_INLINE U16 bf16_from_f32(F32 v) { return narrow(bf16_in_high_half(v) >> 16); }

POSLAB_INLINE F32 f32_from_f16(U16 bits) {
#if POSLAB_VECTOR_BYTES == 64
  return bits_as<F32>(_mm512_maskz_cvtph_ps(all_lanes, bits_as<__m256i>(bits)));
#elif POSLAB_VECTOR_BYTES == 32
  return bits_as<F32>(_mm256_cvtph_ps(bits_as<__m128i>(bits)));
#else
  const U32 u = widen(bits);
  const U32 magnitude = u & 0x7fffU;
  // The exponent's bias grows by 112; multiplying also normalises subnormals.
  const U32 finite = bits_as<U32>(bits_as<F32>(magnitude << 13) * 0x1p112f);
  const U32 quiet = magnitude > 0x7c00U ? U32{} + 0x00400000U : U32{};
  return bits_as<F32>((magnitude >= 0x7c00U ? (magnitude << 13) | 0x7f800000U | quiet : finite) | (u & 0x8000U) << 16);
#endif
}

// Round to nearest, ties to even; a NaN stays one and becomes quiet.
POSLAB_INLINE U16 f16_from_f32(F32 v) {
#if POSLAB_VECTOR_BYTES == 64
  return bits_as<U16>(_mm512_maskz_cvtps_ph(all_lanes, bits_as<__m512>(v), nearest));
#elif POSLAB_VECTOR_BYTES == 32
  return bits_as<U16>(_mm256_cvtps_ph(bits_as<__m256>(v), nearest));
#else
  const U32 u = bits_as<U32>(v);
  const U32 magnitude = u & 0x7fffffffU;
  // Below 2^-14 the sum with 0.5 rounds to f16's subnormal step; above, as for bf16.
  const U32 subnormal = bits_as<U32>(bits_as<F32>(magnitude) + 0.5f) - 0x3f000000U;
  const U32 normal = (magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  const U32 nan = 0x7e00U | ((magnitude >> 13) & 0x3ffU);
  U32 h = magnitude < 0x38800000U ? subnormal : normal;
  h = magnitude >= 0x477ff000U ? U32{} + 0x7c00U : h;  // 65520 and above is infinite
  h = magnitude > 0x7f800000U ? nan : h;
  return narrow(h | u >> 31 << 15);
#endif
}

// f64 to f32 with the last bit set where inexact (round to odd), so that narrowing the result once more to bf16 or f16
// rounds as if f64 had been narrowed at once.
POSLAB_INLINE HalfF32 f32_to_odd(F64 v) {
  typedef std::int32_t HalfI32 __attribute__((vector_size(POSLAB_VECTOR_BYTES / 2)));
  const HalfF32 rounded = __builtin_convertvector(v, HalfF32);
  const F64 back = widen(rounded);
  const I64 beyond = v > 0 ? back > v : back < v;
  const I64 inexact = (back != v) & (v == v);
  // A comparison is 0 or -1 in each lane.
  HalfI32 bits = bits_as<HalfI32>(rounded) + __builtin_convertvector(beyond, HalfI32);
  bits |= __builtin_convertvector(inexact, HalfI32) & 1;
  return bits_as<HalfF32>(bits);
}

// Within registers: halves stored one by one could not be read back as one vector before they reach the cache.
POSLAB_INLINE F32 join(HalfF32 low, HalfF32 high) {
#if POSLAB_VECTOR_BYTES == 64
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#elif POSLAB_VECTOR_BYTES == 32
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
#else
  return __builtin_shufflevector(low, high, 0, 1, 2, 3);
#endif
}

POSLAB_INLINE F32 f32_from_f64(F64 low, F64 high) {
  return join(__builtin_convertvector(low, HalfF32), __builtin_convertvector(high, HalfF32));
}

// Whether any lane of a comparison (0 or -1 each) holds.
POSLAB_INLINE bool any(I32 comparison) {
#if POSLAB_VECTOR_BYTES == 64
  return _mm512_movepi32_mask(bits_as<__m512i>(comparison)) != 0;
#elif POSLAB_VECTOR_BYTES == 32
  return _mm256_movemask_ps(bits_as<__m256>(comparison)) != 0;
#elif defined(__SSE2__)
  return _mm_movemask_ps(bits_as<__m128>(comparison)) != 0;
#else
  return (comparison[0] | comparison[1] | comparison[2] | comparison[3]) != 0;
#endif
}

// f64 to an f32 that rounds once more to bf16 (f16) as the f64 itself would. Only an f32 half way between two bf16 can
// have been brought there by its own rounding, so nearly always the nearest f32 serves.
POSLAB_INLINE F32 f32_before_bf16(F64 low, F64 high) {
  const F32 v = f32_from_f64(low, high);
  if (any((bits_as<U32>(v) & 0xffffU) == 0x8000U)) return join(f32_to_odd(low), f32_to_odd(high));
  return v;
}
POSLAB_INLINE F32 f32_before_f16(F64 low, F64 high) {
  const F32 v = f32_from_f64(low, high);
  const U32 u = bits_as<U32>(v);
  const U32 subnormal_below = U32{} + 0x38800000U;  // where f16's halfway points lie elsewhere
  if (any(((u & 0x1fffU) == 0x1000U) | ((u & 0x7fffffffU) < subnormal_below))) {
    return join(f32_to_odd(low), f32_to_odd(high));
  }
  return v;
}

}  // namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE
