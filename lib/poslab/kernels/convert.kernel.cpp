#include "poslab/kernels/convert.kernel.h"

#include "poslab/kernels/simd.h"

namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE {

// One vector of f32_lanes elements, from and to memory.
struct ToF32 {
  typedef float Element;
  POSLAB_INLINE void step(const float* from, Element* to) { store(to, load<F32>(from)); }
  POSLAB_INLINE void step(const double* from, Element* to) {
    store(to, f32_from_f64(load<F64>(from), load<F64>(from + f64_lanes)));
  }
};
struct ToBf16 {
  typedef std::uint16_t Element;
  POSLAB_INLINE void step(const float* from, Element* to) { store(to, bf16_from_f32(load<F32>(from))); }
  POSLAB_INLINE void step(const double* from, Element* to) {
    store(to, bf16_from_f32(f32_before_bf16(load<F64>(from), load<F64>(from + f64_lanes))));
  }
};
struct ToF16 {
  typedef std::uint16_t Element;
  POSLAB_INLINE void step(const float* from, Element* to) { store(to, f16_from_f32(load<F32>(from))); }
  POSLAB_INLINE void step(const double* from, Element* to) {
    store(to, f16_from_f32(f32_before_f16(load<F64>(from), load<F64>(from + f64_lanes))));
  }
};
struct FromF32 {
  typedef float Element;
  POSLAB_INLINE void step(const float* from, Element* to) { store(to, load<F32>(from)); }
};
struct FromBf16 {
  typedef float Element;
  POSLAB_INLINE void step(const std::uint16_t* from, Element* to) { store(to, f32_from_bf16(load<U16>(from))); }
};
struct FromF16 {
  typedef float Element;
  POSLAB_INLINE void step(const std::uint16_t* from, Element* to) { store(to, f32_from_f16(load<U16>(from))); }
};

template <class Step, class From>
static void convert(const From* from, std::size_t n, typename Step::Element* to) {
  typedef typename Step::Element Element;
  std::size_t i = 0;
  for (; i + f32_lanes <= n; i += f32_lanes) Step::step(from + i, to + i);
  if (i < n) {
    From rest[f32_lanes] = {};
    Element converted[f32_lanes];
    std::memcpy(rest, from + i, (n - i) * sizeof(From));
    Step::step(rest, converted);
    std::memcpy(to + i, converted, (n - i) * sizeof(Element));
  }
}

template <class Step, class From>
static void to_bytes(const From* from, std::size_t n, void* out) {
  convert<Step>(from, n, static_cast<typename Step::Element*>(out));
}

template <class Step, class From>
static void from_bytes(const void* from, std::size_t n, float* out) {
  convert<Step>(static_cast<const From*>(from), n, out);
}

extern const ConvertKernels convert_kernels = {
    {to_bytes<ToF32, double>, to_bytes<ToBf16, double>, to_bytes<ToF16, double>},
    {to_bytes<ToF32, float>, to_bytes<ToBf16, float>, to_bytes<ToF16, float>},
    {from_bytes<FromF32, float>, from_bytes<FromBf16, std::uint16_t>, from_bytes<FromF16, std::uint16_t>}};

}  // namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE
