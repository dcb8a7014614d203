// AdamW, Adam with weight decay apart from the gradient (Loshchilov and Hutter 2017, arXiv:1711.05101, algorithm 2),
// with the gradient clipped by its global norm.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "poslab/models/parameters.h"

namespace poslab {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // of tensors of two dimensions or more
  double clip_norm = 1;       // 0: no clipping
};

// The length of a gradient; not finite where one of its values is not. T is float or double.
template <class T>
double gradient_norm(std::span<const T> gradient);

// T is float or double.
template <class T>
class AdamW {
 public:
  AdamW(const ParameterLayout& layout, const AdamWOptions& options);

  // One step s = 1, 2, ... along a gradient of norm n. g = gradient * min(1, clip_norm / (n + 1e-6))
  //   p *= 1 - learning_rate * weight_decay
  //   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
  //   p -= learning_rate * (m / (1 - beta1^s)) / (sqrt(v / (1 - beta2^s)) + epsilon)
  // Does not depend on `threads`.
  void step(std::span<T> parameters, std::span<const T> gradient, double norm, double learning_rate, int threads);

  std::int64_t steps() const { return steps_; }
  std::span<const T> first_moment() const { return m_; }
  std::span<const T> second_moment() const { return v_; }
  // Takes up where another run stopped. Throws std::invalid_argument "[adamw] ..." when sizes disagree.
  void restore(std::int64_t steps, std::span<const T> first_moment, std::span<const T> second_moment);

 private:
  // A stretch of parameters that all decay or all do not, short enough to be one task.
  struct Piece {
    std::int64_t first, size;
    bool decays;
  };

  AdamWOptions options_;
  std::vector<Piece> pieces_;
  std::vector<T> m_, v_;
  std::int64_t steps_ = 0;
};

// Linear warm-up over the first `warmup` steps, then half a cosine down to final_share of the peak at `steps` (step
// counts from 0):
//   step < warmup   peak (step + 1) / warmup
//   else            peak (final_share + (1 - final_share) (1 + cos(pi (step - warmup) / (steps - warmup))) / 2)
double cosine_schedule(double peak, std::int64_t step, std::int64_t steps, std::int64_t warmup,
                       double final_share = 0.1);

}  // namespace poslab
