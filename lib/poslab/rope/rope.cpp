#include "poslab/rope/rope.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <type_traits>

#include "poslab/kernels/wave_table.h"

namespace poslab {

std::vector<double> rope_inv_freq(std::int64_t rotary_dim, double rope_theta) {
  if (rotary_dim <= 0 || rotary_dim % 2 != 0) {
    throw std::invalid_argument(
        fmt::format("[rope_inv_freq] rotary_dim must be even and at least 2 but got {}.", rotary_dim));
  }
  if (!(rope_theta > 0) || !std::isfinite(rope_theta)) {
    throw std::invalid_argument(fmt::format("[rope_inv_freq] rope_theta must be above 0 but got {}.", rope_theta));
  }
  std::vector<double> inv_freq(static_cast<std::size_t>(rotary_dim / 2));
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    inv_freq[i] = std::pow(rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
  }
  return inv_freq;
}

template <class T>
void apply_rope(std::span<const T> x, std::span<T> out, std::int64_t n_heads, std::int64_t head_dim,
                std::span<const double> positions, std::span<const double> inv_freq, RopeLayout layout,
                double attention_factor) {
  const std::size_t width = static_cast<std::size_t>(head_dim);
  const std::size_t n_pairs = inv_freq.size();
  if (n_heads < 0 || head_dim < 0 || 2 * n_pairs > width) {
    throw std::invalid_argument(
        fmt::format("[apply_rope] {} pairs do not fit in n_heads {} x head_dim {}.", n_pairs, n_heads, head_dim));
  }
  const std::size_t size = static_cast<std::size_t>(n_heads) * positions.size() * width;
  if (x.size() != size || out.size() != size) {
    throw std::invalid_argument(
        fmt::format("[apply_rope] n_heads {} x seq_len {} x head_dim {} needs {} values but x has {} and out {}.",
                    n_heads, positions.size(), head_dim, size, x.size(), out.size()));
  }
  const std::size_t stride = layout == RopeLayout::interleaved ? 2 : 1;
  const std::size_t partner = layout == RopeLayout::interleaved ? 1 : n_pairs;
  std::vector<double> cosines(n_pairs), sines(n_pairs);
  for (std::size_t s = 0; s < positions.size(); ++s) {
    if constexpr (std::is_same_v<T, float>) {
      // Off by less than f64's own rounding of the angle, and many times faster.
      wave_row(positions[s], inv_freq, attention_factor, cosines.data(), sines.data());
    } else {
      for (std::size_t i = 0; i < n_pairs; ++i) {
        const double angle = positions[s] * inv_freq[i];
        cosines[i] = attention_factor * std::cos(angle);
        sines[i] = attention_factor * std::sin(angle);
      }
    }
    for (std::size_t h = 0; h < static_cast<std::size_t>(n_heads); ++h) {
      const std::size_t row = (h * positions.size() + s) * width;
      for (std::size_t i = 0; i < n_pairs; ++i) {
        const std::size_t a = row + i * stride;
        const std::size_t b = a + partner;
        const double first = static_cast<double>(x[a]);
        const double second = static_cast<double>(x[b]);
        out[a] = static_cast<T>(first * cosines[i] - second * sines[i]);
        out[b] = static_cast<T>(first * sines[i] + second * cosines[i]);
      }
      for (std::size_t c = 2 * n_pairs; c < width; ++c) out[row + c] = x[row + c];
    }
  }
}

template void apply_rope<double>(std::span<const double>, std::span<double>, std::int64_t, std::int64_t,
                                 std::span<const double>, std::span<const double>, RopeLayout, double);
template void apply_rope<float>(std::span<const float>, std::span<float>, std::int64_t, std::int64_t,
                                std::span<const double>, std::span<const double>, RopeLayout, double);

template <class T>
void grow_pairs(std::span<T> rows, std::int64_t head_dim, std::span<const double> positions, const PairGrowth& growth,
                bool inverse, RopeLayout layout) {
  for (std::size_t row = 0; row < positions.size(); ++row) {
    const std::vector<double> factors = growth(positions[row]);
    T* x = rows.data() + row * static_cast<std::size_t>(head_dim);
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const double factor = inverse ? 1 / factors[i] : factors[i];
      const PairChannels pair = rope_pair_channels(layout, 2 * std::ssize(factors), static_cast<std::int64_t>(i));
      for (T* value : {x + pair.first, x + pair.second}) {
        *value = static_cast<T>(static_cast<double>(*value) * factor);
      }
    }
  }
}
template void grow_pairs<double>(std::span<double>, std::int64_t, std::span<const double>, const PairGrowth&, bool,
                                 RopeLayout);
template void grow_pairs<float>(std::span<float>, std::int64_t, std::span<const double>, const PairGrowth&, bool,
                                RopeLayout);

double cosine_sum(std::span<const double> frequencies, double distance) {
  double sum = 0;
  for (double frequency : frequencies) sum += std::cos(frequency * distance);
  return sum;
}

}  // namespace poslab
