#include "poslab/kernels/sum.h"

#include "poslab/kernels/sum.kernel.h"

namespace poslab {

double ordered_sum(std::span<const double> x, Isa isa) {
  return POSLAB_CHOOSE_ISA(isa, sum_kernels).sum_f64(x.data(), x.size());
}

double ordered_sum(std::span<const float> x, Isa isa) {
  return POSLAB_CHOOSE_ISA(isa, sum_kernels).sum_f32(x.data(), x.size());
}

double ordered_dot(std::span<const double> x, std::span<const double> y, Isa isa) {
  return POSLAB_CHOOSE_ISA(isa, sum_kernels).dot_f64(x.data(), y.data(), x.size());
}

double ordered_dot(std::span<const float> x, std::span<const float> y, Isa isa) {
  return POSLAB_CHOOSE_ISA(isa, sum_kernels).dot_f32(x.data(), y.data(), x.size());
}

}  // namespace poslab
