#include "poslab/kernels/blas.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "poslab/core/threads.h"
#include "poslab/kernels/isa.h"

namespace poslab {
namespace {

// CBLAS's own numbers, so that no header of OpenBLAS is needed to build.
constexpr int row_major = 101;
constexpr int no_transpose = 111;
constexpr int transposed = 112;

template <class T>
using Gemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, T alpha, const T* a, int lda,
                      const T* b, int ldb, T beta, T* c, int ldc);

struct OpenBlas {
  Gemm<float> sgemm;
  Gemm<double> dgemm;
  std::string name;
};

template <class Function>
Function symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (!found) throw std::runtime_error(fmt::format("[gemm] libopenblas.so.0 has no function {}.", name));
  return reinterpret_cast<Function>(found);
}

// OpenBLAS's kernels for an instruction set; null: its own choice.
constexpr const char* core_for(Isa isa) {
  return isa == Isa::avx512 ? "SkylakeX" : isa == Isa::avx2 ? "Haswell" : nullptr;
}

std::atomic<const OpenBlas*> loaded{nullptr};

const OpenBlas& open_blas() {
  static const OpenBlas blas = [] {
    // Keeps the library from starting threads while it loads.
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    // It knows processors by their model numbers, and runs one that came after it with the instructions of 2004.
    if (const char* core = core_for(active_isa())) setenv("OPENBLAS_CORETYPE", core, 0);
    void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      throw std::runtime_error(
          fmt::format("[gemm] OpenBLAS could not be loaded ({}); install Debian's libopenblas0.", dlerror()));
    }
    symbol<void (*)(int)>(library, "openblas_set_num_threads")(1);
    // The configuration starts with the words "OpenBLAS 0.3.21"; what follows describes the build.
    const std::string config = symbol<char* (*)()>(library, "openblas_get_config")();
    const std::string version = config.substr(0, config.find(' ', config.find(' ') + 1));
    return OpenBlas{symbol<Gemm<float>>(library, "cblas_sgemm"), symbol<Gemm<double>>(library, "cblas_dgemm"),
                    version + " " + symbol<char* (*)()>(library, "openblas_get_corename")()};
  }();
  loaded = &blas;
  return blas;
}

// Below this many multiply-adds a call of BLAS costs more than it saves; the choice depends on sizes alone, so that
// results do not depend on what ran before.
constexpr std::int64_t plain_limit = 4096;

template <class T>
void plain_gemm(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const T* a, std::int64_t lda,
                const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      T sum = 0;
      for (std::int64_t s = 0; s < k; ++s) {
        sum += (ta ? a[s * lda + i] : a[i * lda + s]) * (tb ? b[j * ldb + s] : b[s * ldb + j]);
      }
      T& out = c[i * ldc + j];
      out = beta == 0 ? alpha * sum : alpha * sum + beta * out;
    }
  }
}

template <class T>
Gemm<T> blas_gemm() {
  if constexpr (std::is_same_v<T, float>) {
    return open_blas().sgemm;
  } else {
    return open_blas().dgemm;
  }
}

}  // namespace

template <class T>
void gemm(Transpose transpose_a, Transpose transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          std::type_identity_t<T> alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb,
          std::type_identity_t<T> beta, T* c, std::int64_t ldc) {
  constexpr std::int64_t limit = std::numeric_limits<int>::max();
  if (std::min({m, n, k}) < 0 || std::max({m, n, k, lda, ldb, ldc}) > limit) {
    throw std::invalid_argument(fmt::format("[gemm] sizes must be 0 .. {} but got {} x {} x {} (rows of {}, {}, {}).",
                                            limit, m, n, k, lda, ldb, ldc));
  }
  const bool ta = transpose_a == Transpose::yes;
  const bool tb = transpose_b == Transpose::yes;
  if (k == 0 || m * n <= plain_limit / k) {
    plain_gemm<T>(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    return;
  }
  blas_gemm<T>()(row_major, ta ? transposed : no_transpose, tb ? transposed : no_transpose, static_cast<int>(m),
                 static_cast<int>(n), static_cast<int>(k), alpha, a, static_cast<int>(lda), b, static_cast<int>(ldb),
                 beta, c, static_cast<int>(ldc));
}

template <class T>
void parallel_gemm(Transpose transpose_a, Transpose transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                   std::type_identity_t<T> alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb,
                   std::type_identity_t<T> beta, T* c, std::int64_t ldc, int threads) {
  constexpr std::int64_t block = 256;
  parallel_for((m + block - 1) / block, threads, [&](std::int64_t task) {
    const std::int64_t first = task * block;
    const T* rows = transpose_a == Transpose::yes ? a + first : a + first * lda;
    gemm(transpose_a, transpose_b, std::min(block, m - first), n, k, alpha, rows, lda, b, ldb, beta, c + first * ldc,
         ldc);
  });
}

#define POSLAB_INSTANTIATE(T)                                                                                      \
  template void gemm<T>(Transpose, Transpose, std::int64_t, std::int64_t, std::int64_t, T, const T*, std::int64_t, \
                        const T*, std::int64_t, T, T*, std::int64_t);                                              \
  template void parallel_gemm<T>(Transpose, Transpose, std::int64_t, std::int64_t, std::int64_t, T, const T*,      \
                                 std::int64_t, const T*, std::int64_t, T, T*, std::int64_t, int);
POSLAB_INSTANTIATE(float)
POSLAB_INSTANTIATE(double)
#undef POSLAB_INSTANTIATE

void load_blas() { open_blas(); }

std::string blas_name() {
  const OpenBlas* blas = loaded;
  return blas ? blas->name : "OpenBLAS";
}

}  // namespace poslab
