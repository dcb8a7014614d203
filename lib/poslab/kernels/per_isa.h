// How a kernel exists once per instruction set. NAME.kernel.cpp is compiled once for each (see CMakeLists.txt) with
// POSLAB_KERNEL_NAMESPACE = scalar, avx2, avx512, and defines one table of function pointers in that namespace:
//
//   name.kernel.h    struct NameKernels { void (*f32)(const float* x, std::size_t n); };
//                    POSLAB_DECLARE_PER_ISA(NameKernels, name_kernels)
//   name.kernel.cpp  namespace poslab::kernels::POSLAB_KERNEL_NAMESPACE {
//                    extern const NameKernels name_kernels = {f32};
//                    }
//   name.cpp         #include "poslab/kernels/isa.h"
//                    POSLAB_CHOOSE_ISA(isa, name_kernels).f32(x, n);
//
// A kernel source must emit no function that other objects share: the linker keeps one copy of an inline function or
// template instance, and it could keep the AVX-512 one for all. So kernel sources use vector types (simd.h),
// intrinsics, plain loops and static functions, and nothing from the standard library or fmt beyond <cstddef>,
// <cstdint> and <cstring>.
#pragma once

#ifdef __x86_64__
#define POSLAB_DECLARE_PER_ISA(type, table) \
  namespace scalar {                        \
  extern const type table;                  \
  }                                         \
  namespace avx2 {                          \
  extern const type table;                  \
  }                                         \
  namespace avx512 {                        \
  extern const type table;                  \
  }
#define POSLAB_CHOOSE_ISA(isa, table)                      \
  ((isa) == ::poslab::Isa::avx512 ? kernels::avx512::table \
   : (isa) == ::poslab::Isa::avx2 ? kernels::avx2::table   \
                                  : kernels::scalar::table)
#else
#define POSLAB_DECLARE_PER_ISA(type, table) \
  namespace scalar {                        \
  extern const type table;                  \
  }
#define POSLAB_CHOOSE_ISA(isa, table) (static_cast<void>(isa), kernels::scalar::table)
#endif
