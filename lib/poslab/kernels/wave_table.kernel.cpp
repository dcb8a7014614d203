#include "poslab/kernels/wave_table.kernel.h"

#include "poslab/kernels/simd_math.h"

namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE {

// The angles of f32_lanes pairs as unit vectors.
struct Rotation {
  F64 cosine[2], sine[2];
};

POSLAB_INLINE Rotation combined(const Rotation& a, const Rotation& by) {
  Rotation out;
  for (int v = 0; v < 2; ++v) {
    out.cosine[v] = a.cosine[v] * by.cosine[v] - a.sine[v] * by.sine[v];
    out.sine[v] = a.sine[v] * by.cosine[v] + a.cosine[v] * by.sine[v];
  }
  return out;
}

POSLAB_INLINE Rotation load_rotation(const double* cosines, const double* sines) {
  return {{load<F64>(cosines), load<F64>(cosines + f64_lanes)}, {load<F64>(sines), load<F64>(sines + f64_lanes)}};
}

POSLAB_INLINE Rotation rotation_at(double position, const double* inv_freq, double factor) {
  Rotation rotation;
  for (std::size_t v = 0; v < 2; ++v) {
    sincos(position * load<F64>(inv_freq + v * f64_lanes), rotation.sine[v], rotation.cosine[v]);
    rotation.cosine[v] *= factor;
    rotation.sine[v] *= factor;
  }
  return rotation;
}

// How an element type narrows a pair of double vectors and how wide f32_lanes of its elements are.
struct NarrowF32 {
  typedef F32 Stored;
  static constexpr std::size_t bytes = 4;
  POSLAB_INLINE F32 first(const F64* v) { return f32_from_f64(v[0], v[1]); }
  POSLAB_INLINE F32 last(F32 v) { return v; }
};
struct NarrowBf16 {
  typedef U16 Stored;
  static constexpr std::size_t bytes = 2;
  POSLAB_INLINE F32 first(const F64* v) { return f32_before_bf16(v[0], v[1]); }
  POSLAB_INLINE U16 last(F32 v) { return bf16_from_f32(v); }
};
struct NarrowF16 {
  typedef U16 Stored;
  static constexpr std::size_t bytes = 2;
  POSLAB_INLINE F32 first(const F64* v) { return f32_before_f16(v[0], v[1]); }
  POSLAB_INLINE U16 last(F32 v) { return f16_from_f32(v); }
};

template <bool streaming, class V>
POSLAB_INLINE void put(unsigned char* to, V v, std::size_t bytes) {
  if (bytes < sizeof v) {
    std::memcpy(to, &v, bytes);
  } else if (streaming) {
    stream(to, v);
  } else {
    std::memcpy(to, &v, sizeof v);
  }
}

template <class Narrow, bool interleaved, bool streaming>
POSLAB_INLINE void put_row(const WaveBlock& block, std::size_t row, std::size_t pair, const Rotation& rotation) {
  if (row < block.first_row || row >= block.end_row) return;
  const std::size_t left = (block.n_pairs - pair) * Narrow::bytes;
  const std::size_t at = (row - block.first_row) * block.row_bytes + pair * Narrow::bytes;
  const F32 sine = Narrow::first(rotation.sine);
  const F32 cosine = Narrow::first(rotation.cosine);
  constexpr std::size_t width = sizeof(typename Narrow::Stored);
  if (interleaved) {
    F32 low, high;
    zip(sine, cosine, low, high);
    unsigned char* to = block.sines + at + pair * Narrow::bytes;
    put<streaming>(to, Narrow::last(low), 2 * left);
    if (2 * left > width) put<streaming>(to + width, Narrow::last(high), 2 * left - width);
  } else {
    put<streaming>(block.sines + at, Narrow::last(sine), left);
    put<streaming>(block.cosines + at, Narrow::last(cosine), left);
  }
}

template <class Narrow, bool interleaved, bool streaming>
static void fill(const WaveBlock& block) {
  for (std::size_t pair = 0; pair < block.n_pairs; pair += f32_lanes) {
    Rotation rotation;
    if (block.anchors) {
      rotation = load_rotation(block.anchors + pair, block.anchors + block.padded + pair);
    } else {
      rotation = rotation_at(block.position, block.inv_freq + pair, block.factor);
    }
    Rotation step[wave_steps];
    for (std::size_t k = 0; k < wave_steps; ++k) {
      const double* from = block.steps + 2 * k * block.padded + pair;
      step[k] = load_rotation(from, from + block.padded);
    }
    for (std::size_t row = 0; row < block.end_row; row += wave_steps) {
      put_row<Narrow, interleaved, streaming>(block, row, pair, rotation);
      for (std::size_t k = 1; k < wave_steps; ++k) {
        put_row<Narrow, interleaved, streaming>(block, row + k, pair, combined(rotation, step[k - 1]));
      }
      rotation = combined(rotation, step[wave_steps - 1]);
    }
  }
  if (streaming) stream_fence();
}

POSLAB_INLINE void put_lanes(double* to, const F64* v) {
  store(to, v[0]);
  store(to + f64_lanes, v[1]);
}
POSLAB_INLINE void put_lanes(float* to, const F64* v) { store(to, f32_from_f64(v[0], v[1])); }

template <class T>
static void row(double position, const double* inv_freq, std::size_t n_pairs, double factor, T* cosines, T* sines) {
  std::size_t pair = 0;
  for (; pair + f32_lanes <= n_pairs; pair += f32_lanes) {
    const Rotation rotation = rotation_at(position, inv_freq + pair, factor);
    put_lanes(cosines + pair, rotation.cosine);
    put_lanes(sines + pair, rotation.sine);
  }
  if (pair < n_pairs) {
    double rest[f32_lanes] = {};
    std::memcpy(rest, inv_freq + pair, (n_pairs - pair) * sizeof(double));
    const Rotation rotation = rotation_at(position, rest, factor);
    T cosine[f32_lanes], sine[f32_lanes];
    put_lanes(cosine, rotation.cosine);
    put_lanes(sine, rotation.sine);
    std::memcpy(cosines + pair, cosine, (n_pairs - pair) * sizeof(T));
    std::memcpy(sines + pair, sine, (n_pairs - pair) * sizeof(T));
  }
}

#define POSLAB_FILLS(narrow)                                                                                         \
  {                                                                                                                  \
    {fill<narrow, false, false>, fill<narrow, false, true>}, { fill<narrow, true, false>, fill<narrow, true, true> } \
  }
extern const WaveTableKernels wave_table_kernels = {POSLAB_FILLS(NarrowF32), POSLAB_FILLS(NarrowBf16),
                                                    POSLAB_FILLS(NarrowF16), row<double>, row<float>};

}  // namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE
