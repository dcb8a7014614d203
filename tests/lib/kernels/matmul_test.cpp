#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "poslab/core/random.h"
#include "poslab/kernels/isa.h"
#include "poslab/kernels/matmul.kernel.h"
#include "poslab/models/linear.h"

using namespace poslab;

namespace {

std::vector<float> normal(std::int64_t size, std::int64_t seed) {
  Generator random(seed);
  std::vector<float> values(static_cast<std::size_t>(size));
  for (float& value : values) value = random.standard_normal_f32();
  return values;
}

// x [m, k] w^T, w [n, k], added up in f64.
double product(const std::vector<float>& x, const std::vector<float>& w, std::int64_t k, std::int64_t i,
               std::int64_t j) {
  double sum = 0;
  for (std::int64_t s = 0; s < k; ++s) {
    sum += static_cast<double>(x[static_cast<std::size_t>(i * k + s)]) * w[static_cast<std::size_t>(j * k + s)];
  }
  return sum;
}

struct Size {
  std::int64_t rows, out, in;
};
// Around the edges of tiles, panels and chunks of steps.
constexpr Size sizes[] = {{1, 1, 1},   {12, 32, 16},  {13, 33, 7},    {5, 31, 256}, {130, 65, 300},
                          {29, 96, 1}, {257, 8, 129}, {4, 100, 1000}, {6, 7, 128}};

const kernels::MatmulKernels& kernels_of(Isa isa) { return POSLAB_CHOOSE_ISA(isa, matmul_kernels); }

}  // namespace

TEST_CASE("products with packed weights are those of plain sums, for every instruction set") {
  for (const auto& [m, n, k] : sizes) {
    const std::vector<float> x = normal(m * k, 1), w = normal(n * k, 2), start = normal(m * n, 3);
    for (Isa isa : supported_isas()) {
      CAPTURE(to_word(isa));
      CAPTURE(n);
      CAPTURE(k);
      const kernels::MatmulKernels& kernel = kernels_of(isa);
      std::vector<float> panels(static_cast<std::size_t>((n + kernel.width - 1) / kernel.width * kernel.width * k));
      kernel.pack(k, n, w.data(), 1, k, panels.data());
      for (const bool add : {false, true}) {
        std::vector<float> y = start;
        kernel.multiply(m, n, k, x.data(), k, panels.data(), y.data(), n, add);
        double largest = 0;
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            const auto at = static_cast<std::size_t>(i * n + j);
            const double expected = product(x, w, k, i, j) + (add ? static_cast<double>(start[at]) : 0);
            largest = std::max(largest, std::abs(static_cast<double>(y[at]) - expected));
          }
        }
        CHECK(largest < 2e-6 * std::sqrt(static_cast<double>(k)) * 8);
        // Cut into calls of a few rows, bit for bit the same.
        std::vector<float> cut = start;
        for (std::int64_t i = 0; i < m; i += 5) {
          kernel.multiply(std::min<std::int64_t>(5, m - i), n, k, x.data() + i * k, k, panels.data(),
                          cut.data() + i * n, n, add);
        }
        CHECK(cut == y);
      }
    }
  }
}

TEST_CASE("a transposed product is added, chunk after chunk") {
  for (const auto& [k, m, n] : sizes) {
    const std::vector<float> a = normal(k * m, 1), b = normal(k * n, 2), start = normal(m * n, 3);
    for (Isa isa : supported_isas()) {
      CAPTURE(to_word(isa));
      CAPTURE(m);
      CAPTURE(k);
      std::vector<float> c = start, scratch(static_cast<std::size_t>(kernels::matmul_scratch(n)));
      kernels_of(isa).add_transposed(m, n, k, a.data(), m, b.data(), n, c.data(), n, scratch.data());
      double largest = 0;
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = start[static_cast<std::size_t>(i * n + j)];
          for (std::int64_t s = 0; s < k; ++s) {
            sum += static_cast<double>(a[static_cast<std::size_t>(s * m + i)]) * b[static_cast<std::size_t>(s * n + j)];
          }
          largest = std::max(largest, std::abs(static_cast<double>(c[static_cast<std::size_t>(i * n + j)]) - sum));
        }
      }
      CHECK(largest < 2e-6 * std::sqrt(static_cast<double>(k)) * 8);
    }
  }
}

TEST_CASE("a weight too large to pack gives what a packed one gives, but for rounding") {
  constexpr std::int64_t rows = 3, in = 64, out = (std::int64_t{1} << 23) / in + 1;  // one row beyond the limit
  const std::vector<float> x = normal(rows * in, 1), w = normal(out * in, 2), bias = normal(out, 3);
  std::vector<float> whole(rows * out), part(rows * 7), d_x(rows * in), d_x_part(rows * in);
  LinearMap<float>(out, in, w.data(), bias.data())(rows, x.data(), whole.data());
  LinearMap<float>(7, in, w.data(), bias.data())(rows, x.data(), part.data());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < 7; ++j) {
      CHECK(whole[static_cast<std::size_t>(r * out + j)] ==
            doctest::Approx(part[static_cast<std::size_t>(r * 7 + j)]).epsilon(1e-5));
    }
  }
  // d_y is 0 beyond the first seven outputs.
  const std::vector<float> d_part = normal(rows * 7, 4);
  std::vector<float> d_y(rows * out);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < 7; ++j) {
      d_y[static_cast<std::size_t>(r * out + j)] = d_part[static_cast<std::size_t>(r * 7 + j)];
    }
  }
  LinearGradient<float>(out, in, w.data()).input(rows, d_y.data(), d_x.data());
  LinearGradient<float>(7, in, w.data()).input(rows, d_part.data(), d_x_part.data());
  for (std::size_t i = 0; i < d_x.size(); ++i) CHECK(d_x[i] == doctest::Approx(d_x_part[i]).epsilon(1e-4));
}
