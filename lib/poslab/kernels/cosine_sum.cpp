#include "poslab/kernels/cosine_sum.h"

#include <cmath>

#include "poslab/kernels/cosine_sum.kernel.h"

namespace poslab {

using kernels::cosine_lanes;

CosineSums::CosineSums(std::span<const double> inv_freq, Isa isa)
    : inv_freq_(inv_freq.begin(), inv_freq.end()), isa_(isa) {
  starts_.resize(inv_freq_.size() * 4 * cosine_lanes);
  double* at = starts_.data();
  for (double w : inv_freq_) {
    for (std::size_t lane = 0; lane < cosine_lanes; ++lane, ++at) {
      const double first = static_cast<double>(lane) * w;
      const double second = static_cast<double>(lane + cosine_lanes) * w;
      at[0] = std::cos(first);
      at[cosine_lanes] = std::sin(first);
      at[2 * cosine_lanes] = std::cos(second);
      at[3 * cosine_lanes] = std::sin(second);
    }
    at += 3 * cosine_lanes;
    twice_cos_.push_back(2 * std::cos(static_cast<double>(cosine_lanes) * w));
  }
  inv_freq_.resize((inv_freq_.size() + cosine_lanes - 1) / cosine_lanes * cosine_lanes);
}

void CosineSums::fill_block(std::int64_t index, std::span<double, block> out) const {
  POSLAB_CHOOSE_ISA(isa_, cosine_sum_kernels)
      .fill(static_cast<double>(index * block), inv_freq_.data(), starts_.data(), twice_cos_.data(), twice_cos_.size(),
            out.data(), out.size());
}

CosineSumInBase::CosineSumInBase(std::int64_t n_pairs, Isa isa) : n_pairs_(n_pairs), isa_(isa) {
  const std::size_t n = static_cast<std::size_t>(n_pairs);
  exponents_.resize((n + cosine_lanes - 1) / cosine_lanes * cosine_lanes);
  weights_.resize(exponents_.size());
  for (std::size_t i = 0; i < n; ++i) {
    exponents_[i] = static_cast<double>(i) / static_cast<double>(n);
    weights_[i] = 1;
  }
}

CosineSumPoint CosineSumInBase::at(double t, double m) const {
  const double n = static_cast<double>(n_pairs_);
  double out[4];
  POSLAB_CHOOSE_ISA(isa_, cosine_sum_kernels)
      .at_base(t, std::exp(-t / n), m, exponents_.data(), weights_.data(), exponents_.size(), out);
  // The angle's relative error is below 2.5e-16 (1 + t x + i); each cosine and each addition adds its own.
  return {out[0], out[1], out[2], 2.5e-16 * out[3] + 1.2e-16 * n * (n + 4)};
}

}  // namespace poslab
