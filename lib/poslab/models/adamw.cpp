#include "poslab/models/adamw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "poslab/core/threads.h"
#include "poslab/kernels/sum.h"

namespace poslab {

template <class T>
double gradient_norm(std::span<const T> gradient) {
  return std::sqrt(ordered_dot(gradient, gradient));
}

template double gradient_norm(std::span<const float>);
template double gradient_norm(std::span<const double>);

template <class T>
AdamW<T>::AdamW(const ParameterLayout& layout, const AdamWOptions& options)
    : options_(options), m_(static_cast<std::size_t>(layout.size())), v_(static_cast<std::size_t>(layout.size())) {
  constexpr std::int64_t longest = 1 << 15;
  for (const ParameterSpec& spec : layout.specs()) {
    for (std::int64_t first = 0; first < spec.size; first += longest) {
      pieces_.push_back({spec.offset + first, std::min(longest, spec.size - first), spec.shape.size() >= 2});
    }
  }
}

template <class T>
void AdamW<T>::step(std::span<T> parameters, std::span<const T> gradient, double norm, double learning_rate,
                    int threads) {
  ++steps_;
  const double steps = static_cast<double>(steps_);
  const T clip = static_cast<T>(options_.clip_norm == 0 ? 1 : std::min(1.0, options_.clip_norm / (norm + 1e-6)));
  const T beta1 = static_cast<T>(options_.beta1), beta2 = static_cast<T>(options_.beta2);
  const T rest1 = static_cast<T>(1 - options_.beta1), rest2 = static_cast<T>(1 - options_.beta2);
  const T rate = static_cast<T>(learning_rate / (1 - std::pow(options_.beta1, steps)));
  const T root = static_cast<T>(std::sqrt(1 - std::pow(options_.beta2, steps)));
  const T epsilon = static_cast<T>(options_.epsilon);
  parallel_for(std::ssize(pieces_), threads, [&](std::int64_t task) {
    const Piece& piece = pieces_[static_cast<std::size_t>(task)];
    const T keep = static_cast<T>(piece.decays ? 1 - learning_rate * options_.weight_decay : 1);
    T* p = parameters.data() + piece.first;
    const T* g = gradient.data() + piece.first;
    T* m = m_.data() + piece.first;
    T* v = v_.data() + piece.first;
    for (std::int64_t i = 0; i < piece.size; ++i) {
      const T clipped = g[i] * clip;
      m[i] = beta1 * m[i] + rest1 * clipped;
      v[i] = beta2 * v[i] + rest2 * clipped * clipped;
      p[i] = p[i] * keep - rate * m[i] / (std::sqrt(v[i]) / root + epsilon);
    }
  });
}

template <class T>
void AdamW<T>::restore(std::int64_t steps, std::span<const T> first_moment, std::span<const T> second_moment) {
  if (first_moment.size() != m_.size() || second_moment.size() != v_.size() || steps < 0) {
    throw std::invalid_argument(
        fmt::format("[adamw] moments of {} and {} values after {} steps are not of {} parameters.", first_moment.size(),
                    second_moment.size(), steps, m_.size()));
  }
  steps_ = steps;
  std::copy(first_moment.begin(), first_moment.end(), m_.begin());
  std::copy(second_moment.begin(), second_moment.end(), v_.begin());
}

template class AdamW<float>;
template class AdamW<double>;

double cosine_schedule(double peak, std::int64_t step, std::int64_t steps, std::int64_t warmup, double final_share) {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const double way =
      static_cast<double>(step - warmup) / static_cast<double>(std::max<std::int64_t>(1, steps - warmup));
  return peak * (final_share + (1 - final_share) * 0.5 * (1 + std::cos(std::numbers::pi * way)));
}

}  // namespace poslab
