// Which RoPE bases keep a length usable, by B(m) = sum_i cos(m * inv_freq_i) (cosine_sum of rope.h): where it is
// negative, a similar key at distance m scores below a random one (Men et al. 2024, arXiv:2405.14591; Su,
// kexue.fm/archives/10122).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace poslab {

// The smallest m with B(m) < 0, 0 <= m < end, or nothing; inv_freq [n_pairs] in radians per token, end at most 2^24.
std::optional<std::int64_t> first_negative(std::span<const double> inv_freq, std::int64_t end, int threads);

// RoFormer's bound on how a score decays with distance, 1/n_pairs * sum_j |S_j|, S_j = sum_{i<j} exp(1i * distance *
// inv_freq_i), j = 1 .. n_pairs (arXiv:2104.09864, section 3.4.3). Decreasing frequencies give the paper's curve.
double decay_bound(std::span<const double> inv_freq, double distance);

// 2 * ceil(rotary_dim / 2 * log_base(length / 2 pi)), within 0 .. rotary_dim: the channels whose pairs turned fully in
// a pre-training of `length` tokens with `base` (Liu et al. 2024, arXiv:2310.05209, section 2). base > 1, length > 0.
std::int64_t critical_dim(std::int64_t rotary_dim, double base, double length);

// 2 pi base^(critical / rotary_dim), tokens: how far fine-tuning with `base` reaches (the same paper, theorem 1).
double extrapolation_length(std::int64_t rotary_dim, double base, std::int64_t critical);

// All bases from `from` to `to` have B(m) >= 0 at every 0 <= m < seq_len; no `to`: all bases above are feasible.
struct BaseIsland {
  double from = 1;
  std::optional<double> to;
};

// What a search among all real bases above 1 proved. Feasibility is not monotone in the base, so no bisection: from
// each point the search leaps as far as Taylor's theorem, with a bound on the second derivative in ln(base), forbids
// B(m) a change of sign. `unproved` is the width, in ln(base), of the steps where |B(m)| was below its rounding error.
struct BaseSearch {
  std::optional<double> smallest;   // the infimum of the feasible bases; absent where no base is feasible
  std::vector<BaseIsland> islands;  // ascending, the first begins at `smallest`
  double unproved = 0;
};

// progress is told a share of the work, 0 .. 1. `islands` stays empty; time grows as seq_len^1.7.
// Throws std::invalid_argument "[smallest_base] ..." for an odd or non-positive rotary_dim or seq_len outside 1 ..
// 2^24.
BaseSearch smallest_base(std::int64_t rotary_dim, std::int64_t seq_len, int threads,
                         const std::function<void(double)>& progress);

// smallest_base and every island above it; time grows as seq_len^2.
BaseSearch feasible_bases(std::int64_t rotary_dim, std::int64_t seq_len, int threads,
                          const std::function<void(double)>& progress);

}  // namespace poslab
