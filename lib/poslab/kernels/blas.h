// Matrix products. OpenBLAS is loaded at the first product worth it, so that cheap subcommands start at once, and runs
// with one thread, since its results change with its thread count; poslab's own threads share out the rows. Its kernels
// are those for the instruction set of poslab's own, unless OPENBLAS_CORETYPE says otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

namespace poslab {

enum class Transpose { no, yes };

// For float and double: c = alpha * op(a) op(b) + beta * c, op as `transpose_a` and `transpose_b` say; row by row, in
// elements:
//
//   op(a)  [m, k]   a itself [k, m] where transposed
//   op(b)  [k, n]   b itself [n, k] where transposed
//   c      [m, n]   not read where beta is 0
//   lda, ldb, ldc   from one row of the stored matrix to the next
//
// Small products (m * n * k up to 4096) are plain loops that add up over k in rising order.
// Throws std::invalid_argument "[gemm] ..." for sizes that BLAS cannot hold, std::runtime_error "[gemm] ..." where
// OpenBLAS is not installed.
template <class T>
void gemm(Transpose transpose_a, Transpose transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          std::type_identity_t<T> alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb,
          std::type_identity_t<T> beta, T* c, std::int64_t ldc);

// The same, up to `threads` threads each computing blocks of 256 rows of c.
template <class T>
void parallel_gemm(Transpose transpose_a, Transpose transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                   std::type_identity_t<T> alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb,
                   std::type_identity_t<T> beta, T* c, std::int64_t ldc, int threads);

// Loads OpenBLAS now, for those who report its kernel beside a benchmark; throws as gemm does.
void load_blas();

// "OpenBLAS", followed by its version and the kernel it found once it is loaded; never loads it.
std::string blas_name();

}  // namespace poslab
