#include "poslab/kernels/rotation.kernel.h"

#include "poslab/kernels/simd.h"

namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE {

// One step of a layout in an element type: `pairs` pairs as `vectors` vectors of first and of second members, in an
// order of lanes that table() follows. In the half layout `second` is n_pairs elements after `first`.
struct StepF32Base {
  typedef float Element;
  POSLAB_INLINE F32 get(const float* from) { return load<F32>(from); }
  template <bool streaming>
  POSLAB_INLINE void put(float* to, F32 v) {
    streaming ? stream(to, v) : store(to, v);
  }
};
struct StepF16Base {
  typedef std::uint16_t Element;
  POSLAB_INLINE F32 get(const Element* from) { return f32_from_f16(load<U16>(from)); }
  template <bool streaming>
  POSLAB_INLINE void put(Element* to, F32 v) {
    streaming ? stream(to, f16_from_f32(v)) : store(to, f16_from_f32(v));
  }
};

template <class Base>
struct HalfStep : Base {
  typedef typename Base::Element Element;
  static constexpr std::size_t pairs = f32_lanes, vectors = 1;
  POSLAB_INLINE void table(const float* from, F32* v) { v[0] = load<F32>(from); }
  POSLAB_INLINE void get_pairs(const Element* first, const Element* second, F32* a, F32* b) {
    a[0] = Base::get(first);
    b[0] = Base::get(second);
  }
  template <bool streaming>
  POSLAB_INLINE void put_pairs(Element* first, Element* second, const F32* a, const F32* b) {
    Base::template put<streaming>(first, a[0]);
    Base::template put<streaming>(second, b[0]);
  }
};

template <class Base>
struct InterleavedStep : Base {
  typedef typename Base::Element Element;
  static constexpr std::size_t pairs = f32_lanes, vectors = 1;
  POSLAB_INLINE void table(const float* from, F32* v) { v[0] = load<F32>(from); }
  POSLAB_INLINE void get_pairs(const Element* first, const Element*, F32* a, F32* b) {
    unzip(Base::get(first), Base::get(first + f32_lanes), a[0], b[0]);
  }
  template <bool streaming>
  POSLAB_INLINE void put_pairs(Element* first, Element*, const F32* a, const F32* b) {
    F32 low, high;
    zip(a[0], b[0], low, high);
    Base::template put<streaming>(first, low);
    Base::template put<streaming>(first + f32_lanes, high);
  }
};

// Two bf16 lie in each 32-bit word: shifts and masks take them apart where converting lane by lane would shuffle.
struct StepBf16Base {
  typedef std::uint16_t Element;
  POSLAB_INLINE F32 low(U32 words) { return bits_as<F32>(words << 16); }
  POSLAB_INLINE F32 high(U32 words) { return bits_as<F32>(words & 0xffff0000U); }
  template <bool streaming>
  POSLAB_INLINE void put(Element* to, F32 low, F32 high) {
    const U32 words = (bf16_in_high_half(low) >> 16) | (bf16_in_high_half(high) & 0xffff0000U);
    streaming ? stream(to, bits_as<F32>(words)) : store(to, words);
  }
};

struct InterleavedBf16Step : StepBf16Base {
  static constexpr std::size_t pairs = f32_lanes, vectors = 1;
  POSLAB_INLINE void table(const float* from, F32* v) { v[0] = load<F32>(from); }
  POSLAB_INLINE void get_pairs(const Element* first, const Element*, F32* a, F32* b) {
    const U32 words = load<U32>(first);
    a[0] = low(words);
    b[0] = high(words);
  }
  template <bool streaming>
  POSLAB_INLINE void put_pairs(Element* first, Element*, const F32* a, const F32* b) {
    put<streaming>(first, a[0], b[0]);
  }
};

struct HalfBf16Step : StepBf16Base {
  static constexpr std::size_t pairs = 2 * f32_lanes, vectors = 2;
  POSLAB_INLINE void table(const float* from, F32* v) {
    unzip(load<F32>(from), load<F32>(from + f32_lanes), v[0], v[1]);
  }
  POSLAB_INLINE void get_pairs(const Element* first, const Element* second, F32* a, F32* b) {
    const U32 of_first = load<U32>(first), of_second = load<U32>(second);
    a[0] = low(of_first);
    a[1] = high(of_first);
    b[0] = low(of_second);
    b[1] = high(of_second);
  }
  template <bool streaming>
  POSLAB_INLINE void put_pairs(Element* first, Element* second, const F32* a, const F32* b) {
    put<streaming>(first, a[0], a[1]);
    put<streaming>(second, b[0], b[1]);
  }
};

// Tensors beyond the caches come row after row from memory; asking for a page ahead hides more of the way than the
// processor's own guess, which starts anew with each tile.
constexpr std::size_t bytes_ahead = 4096;

template <class Step, bool inverse, bool streaming>
POSLAB_INLINE void turn_pairs(const typename Step::Element* first, const typename Step::Element* second,
                              typename Step::Element* out_first, typename Step::Element* out_second,
                              const float* cosines, const float* sines) {
  F32 a[Step::vectors], b[Step::vectors], c[Step::vectors], s[Step::vectors];
  Step::get_pairs(first, second, a, b);
  Step::table(cosines, c);
  Step::table(sines, s);
  for (std::size_t v = 0; v < Step::vectors; ++v) {
    const F32 rotated = inverse ? a[v] * c[v] + b[v] * s[v] : a[v] * c[v] - b[v] * s[v];
    b[v] = inverse ? b[v] * c[v] - a[v] * s[v] : a[v] * s[v] + b[v] * c[v];
    a[v] = rotated;
  }
  Step::template put_pairs<streaming>(out_first, out_second, a, b);
}

template <class Step, bool half, bool inverse, bool streaming>
static void rotate(const RotationRows& r) {
  typedef typename Step::Element Element;
  constexpr std::size_t spread = half ? 1 : 2;  // elements of `first` that a pair takes
  const std::size_t n = r.n_pairs;
  const std::size_t whole = n / Step::pairs * Step::pairs, left = n - whole;
  const std::size_t tail = (r.width - 2 * n) * sizeof(Element);
  for (std::size_t row = 0; row < r.rows; ++row) {
    const Element* x = static_cast<const Element*>(r.x) + row * r.x_stride;
    Element* out = static_cast<Element*>(r.out) + row * r.out_stride;
    const float* cosines = r.cosines + row * r.table_stride;
    const float* sines = r.sines + row * r.table_stride;
    for (std::size_t i = 0; i < whole; i += Step::pairs) {
      __builtin_prefetch(reinterpret_cast<const char*>(x + spread * i) + bytes_ahead);
      __builtin_prefetch(reinterpret_cast<const char*>(half ? x + n + i : x + spread * i + Step::pairs) + bytes_ahead);
      turn_pairs<Step, inverse, streaming>(x + spread * i, x + n + i, out + spread * i, out + n + i, cosines + i,
                                           sines + i);
    }
    if (left) {
      Element first[2 * Step::pairs] = {}, second[Step::pairs] = {};
      float c[Step::pairs] = {}, s[Step::pairs] = {};
      std::memcpy(first, x + spread * whole, spread * left * sizeof(Element));
      if (half) std::memcpy(second, x + n + whole, left * sizeof(Element));
      std::memcpy(c, cosines + whole, left * sizeof(float));
      std::memcpy(s, sines + whole, left * sizeof(float));
      turn_pairs<Step, inverse, false>(first, second, first, second, c, s);
      std::memcpy(out + spread * whole, first, spread * left * sizeof(Element));
      if (half) std::memcpy(out + n + whole, second, left * sizeof(Element));
    }
    if (tail && out != x) std::memcpy(out + 2 * n, x + 2 * n, tail);
  }
  if (streaming) stream_fence();
}

#define POSLAB_DIRECTIONS(step, half)                                      \
  {                                                                        \
    {rotate<step, half, false, false>, rotate<step, half, false, true>}, { \
      rotate<step, half, true, false>, rotate<step, half, true, true>      \
    }                                                                      \
  }
extern const RotationKernels rotation_kernels = {
    {POSLAB_DIRECTIONS(InterleavedStep<StepF32Base>, false), POSLAB_DIRECTIONS(HalfStep<StepF32Base>, true)},
    {POSLAB_DIRECTIONS(InterleavedBf16Step, false), POSLAB_DIRECTIONS(HalfBf16Step, true)},
    {POSLAB_DIRECTIONS(InterleavedStep<StepF16Base>, false), POSLAB_DIRECTIONS(HalfStep<StepF16Base>, true)}};

}  // namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE
