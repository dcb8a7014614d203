#include "poslab/models/score_head.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "poslab/kernels/blas.h"
#include "poslab/models/pointwise.h"

namespace poslab {
namespace {

constexpr std::int64_t columns_at_once = 2048;

// Of the tiles of a row seen so far.
struct Running {
  double log_sum = -std::numeric_limits<double>::infinity();
  double best = -std::numeric_limits<double>::infinity();
  double own = 0;
};

// ln(e^a + e^b), NaN if either is.
double log_add(double a, double b) {
  if (std::isnan(a + b)) return std::numeric_limits<double>::quiet_NaN();
  const double high = std::max(a, b), low = std::min(a, b);
  return std::isinf(low) ? high : high + std::log1p(std::exp(low - high));
}

}  // namespace

std::int64_t score_scratch() { return score_rows_at_once * columns_at_once; }

template <class T>
void score_rows(std::int64_t d_model, std::int64_t vocab_size, const T* x, const T* head,
                std::span<const std::int64_t> targets, std::span<TokenScore> scores, T* scratch) {
  const auto rows = std::ssize(targets);
  std::vector<Running> running(targets.size());
  for (std::int64_t first = 0; first < vocab_size; first += columns_at_once) {
    const std::int64_t n = std::min(columns_at_once, vocab_size - first);
    gemm<T>(Transpose::no, Transpose::yes, rows, n, d_model, 1, x, d_model, head + first * d_model, d_model, 0, scratch,
            n);
    for (std::size_t r = 0; r < targets.size(); ++r) {
      const std::int64_t target = targets[r];
      if (target == no_target) continue;
      T* logits = scratch + static_cast<std::int64_t>(r) * n;
      Running& row = running[r];
      if (target >= first && target < first + n) row.own = static_cast<double>(logits[target - first]);
      const double log_sum = log_sum_exp(n, logits);
      // A tile's largest logit is at most its log-sum; rounding may undercut that a little.
      if (log_sum >= row.best - 1e-3) {
        const T* best = std::max_element(logits, logits + n);
        if (static_cast<double>(*best) > row.best) {
          row.best = static_cast<double>(*best);
          scores[r].best = first + (best - logits);
        }
      }
      row.log_sum = log_add(row.log_sum, log_sum);
    }
  }
  for (std::size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] == no_target) continue;
    scores[r].nll = running[r].log_sum - running[r].own;
    if (std::isnan(scores[r].nll)) scores[r].best = no_target;
  }
}

template void score_rows(std::int64_t, std::int64_t, const float*, const float*, std::span<const std::int64_t>,
                         std::span<TokenScore>, float*);
template void score_rows(std::int64_t, std::int64_t, const double*, const double*, std::span<const std::int64_t>,
                         std::span<TokenScore>, double*);

}  // namespace poslab
