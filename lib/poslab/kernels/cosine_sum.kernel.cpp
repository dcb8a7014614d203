#include "poslab/kernels/cosine_sum.kernel.h"

#include "poslab/kernels/simd_math.h"

namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE {

constexpr std::size_t vectors = cosine_lanes / f64_lanes;

// Adds `pairs` cosines at once, whose chains of dependent steps overlap. A step is
// cos((k + 1) a) = 2 cos(a) cos(k a) - cos((k - 1) a), whose error grows as the square of the number of steps.
template <std::size_t pairs>
static void add(const double* cosines, const double* sines, const double* starts, const double* twice_cos, double* out,
                std::size_t n) {
  for (std::size_t lane = 0; lane < cosine_lanes; lane += f64_lanes) {
    F64 previous[pairs], current[pairs], twice[pairs];
    for (std::size_t p = 0; p < pairs; ++p) {
      const double* at = starts + p * 4 * cosine_lanes + lane;
      previous[p] = cosines[p] * load<F64>(at) - sines[p] * load<F64>(at + cosine_lanes);
      current[p] = cosines[p] * load<F64>(at + 2 * cosine_lanes) - sines[p] * load<F64>(at + 3 * cosine_lanes);
      twice[p] = splat(twice_cos[p]);
    }
    for (double *to = out + lane, *end = to + n; to < end; to += 2 * cosine_lanes) {
      F64 even = load<F64>(to);
      F64 odd = load<F64>(to + cosine_lanes);
      for (std::size_t p = 0; p < pairs; ++p) {
        even += previous[p];
        odd += current[p];
        previous[p] = twice[p] * current[p] - previous[p];
        current[p] = twice[p] * previous[p] - current[p];
      }
      store(to, even);
      store(to + cosine_lanes, odd);
    }
  }
}

static void fill(double m0, const double* inv_freq, const double* starts, const double* twice_cos, std::size_t n_pairs,
                 double* out, std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) out[j] = 0;
  for (std::size_t i = 0; i < n_pairs; i += cosine_lanes) {
    double cosines[cosine_lanes], sines[cosine_lanes];
    for (std::size_t lane = 0; lane < cosine_lanes; lane += f64_lanes) {
      F64 s, c;
      sincos(m0 * load<F64>(inv_freq + i + lane), s, c);
      store(cosines + lane, c);
      store(sines + lane, s);
    }
    const std::size_t pairs = n_pairs - i < cosine_lanes ? n_pairs - i : cosine_lanes;
    const double* from = starts + i * 4 * cosine_lanes;
    std::size_t p = 0;
    for (; p + 4 <= pairs; p += 4) {
      add<4>(cosines + p, sines + p, from + p * 4 * cosine_lanes, twice_cos + i + p, out, n);
    }
    for (; p < pairs; ++p) {
      add<1>(cosines + p, sines + p, from + p * 4 * cosine_lanes, twice_cos + i + p, out, n);
    }
  }
}

static double total(const F64* sums) {
  double lanes[cosine_lanes];
  for (std::size_t v = 0; v < vectors; ++v) store(lanes + v * f64_lanes, sums[v]);
  for (std::size_t width = cosine_lanes / 2; width > 0; width /= 2) {
    for (std::size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

static void at_base(double t, double ratio, double m, const double* exponents, const double* weights, std::size_t n,
                    double* out) {
  double powers[cosine_lanes + 1] = {1};
  for (std::size_t lane = 1; lane <= cosine_lanes; ++lane) powers[lane] = powers[lane - 1] * ratio;
  const double step = powers[cosine_lanes];
  F64 angle[vectors], index[vectors], value[vectors] = {}, slope[vectors] = {}, curvature[vectors] = {};
  F64 angles[vectors] = {};
  for (std::size_t v = 0; v < vectors; ++v) {
    angle[v] = m * load<F64>(powers + v * f64_lanes);
    for (std::size_t lane = 0; lane < f64_lanes; ++lane) index[v][lane] = static_cast<double>(v * f64_lanes + lane);
  }
  for (std::size_t i = 0; i < n; i += cosine_lanes) {
    for (std::size_t v = 0; v < vectors; ++v) {
      const F64 x = load<F64>(exponents + i + v * f64_lanes);
      const F64 weight = load<F64>(weights + i + v * f64_lanes);
      const F64 a = angle[v];
      F64 s, c;
      sincos(a, s, c);
      value[v] += weight * c;
      slope[v] += x * a * s;
      // B'' sums -x^2 a (sin a + a cos a), at most x^2 a sqrt(1 + a^2), which is below a^2 + 1/2 and a^2 + a.
      curvature[v] += x * x * (a * a + (a < 0.5 ? a : splat(0.5)));
      angles[v] += weight * a * (1 + t * x + index[v]);
      angle[v] = a * step;
      index[v] += static_cast<double>(cosine_lanes);
    }
  }
  out[0] = total(value);
  out[1] = total(slope);
  out[2] = total(curvature);
  out[3] = total(angles);
}

extern const CosineSumKernels cosine_sum_kernels = {fill, at_base};

}  // namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE
