#include "poslab/kernels/blas.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "poslab/kernels/isa.h"

using namespace poslab;

namespace {

// Whole numbers: every product and sum below is exact, whatever the order.
template <class T>
std::vector<T> whole(std::int64_t n, std::int64_t step) {
  std::vector<T> out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(static_cast<T>((i * step) % 11 - 5));
  return out;
}

}  // namespace

TEST_CASE_TEMPLATE("gemm: every transposition, strided rows, plain and BLAS sizes, any threads", T, float, double) {
  for (const std::int64_t m : {1, 5, 40, 300}) {
    for (const std::int64_t n : {1, 7, 33}) {
      for (const std::int64_t k : {0, 3, 50}) {
        for (const bool ta : {false, true}) {
          for (const bool tb : {false, true}) {
            const std::int64_t lda = (ta ? m : k) + 2, ldb = (tb ? k : n) + 1, ldc = n + 3;
            const auto a = whole<T>((ta ? k : m) * lda, 7), b = whole<T>((tb ? n : k) * ldb, 3);
            const auto start = whole<T>(m * ldc, 5);
            auto expected = start;
            for (std::int64_t i = 0; i < m; ++i) {
              for (std::int64_t j = 0; j < n; ++j) {
                T sum = 0;
                for (std::int64_t s = 0; s < k; ++s) {
                  sum += a[static_cast<std::size_t>(ta ? s * lda + i : i * lda + s)] *
                         b[static_cast<std::size_t>(tb ? j * ldb + s : s * ldb + j)];
                }
                T& c = expected[static_cast<std::size_t>(i * ldc + j)];
                c = 2 * sum + 3 * c;
              }
            }
            const Transpose op_a = ta ? Transpose::yes : Transpose::no, op_b = tb ? Transpose::yes : Transpose::no;
            auto c = start;
            gemm(op_a, op_b, m, n, k, 2, a.data(), lda, b.data(), ldb, 3, c.data(), ldc);
            CHECK(c == expected);
            c = start;
            parallel_gemm(op_a, op_b, m, n, k, 2, a.data(), lda, b.data(), ldb, 3, c.data(), ldc, 2);
            CHECK(c == expected);
          }
        }
      }
    }
  }
}

TEST_CASE("gemm with beta 0 overwrites what was no number") {
  for (const std::int64_t n : {2, 40}) {
    const auto a = whole<double>(n * n, 7);
    std::vector<double> c(static_cast<std::size_t>(n * n), std::nan(""));
    gemm(Transpose::no, Transpose::no, n, n, n, 1, a.data(), n, a.data(), n, 0, c.data(), n);
    for (double x : c) CHECK(std::isfinite(x));
  }
}

TEST_CASE("gemm refuses sizes that BLAS's integers cannot hold") {
  double x = 0;
  CHECK_THROWS_AS(gemm(Transpose::no, Transpose::no, std::int64_t{1} << 31, 1, 1, 1, &x, 1, &x, 1, 0, &x, 1),
                  std::invalid_argument);
  CHECK_THROWS_AS(gemm(Transpose::no, Transpose::no, -1, 1, 1, 1, &x, 1, &x, 1, 0, &x, 1), std::invalid_argument);
}

TEST_CASE("blas_name tells the version and kernel once OpenBLAS is loaded") {
  load_blas();
  CHECK(blas_name().starts_with("OpenBLAS 0."));
  CHECK(blas_name().size() > std::string("OpenBLAS 0.3.21").size());
}

TEST_CASE("OpenBLAS runs with the instructions of poslab's own kernels, on a processor it does not know too") {
  load_blas();
  if (active_isa() == Isa::scalar) return;
  const char* core = std::getenv("OPENBLAS_CORETYPE");
  REQUIRE(core);
  CHECK(blas_name().ends_with(core));
}
