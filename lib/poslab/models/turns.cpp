#include "poslab/models/turns.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "poslab/kernels/rotation.h"

namespace poslab {

template <class T>
Turns<T> make_turns(const TransformerConfig& config, const RopeFrequencies& rope, std::int64_t seq_len) {
  Turns<T> turns;
  turns.n_pairs = std::ssize(rope.inv_freq);
  if (2 * turns.n_pairs > config.head_dim) {
    throw std::invalid_argument(
        fmt::format("[transformer] {} pairs do not fit in head_dim {}.", turns.n_pairs, config.head_dim));
  }
  const PairGrowth grown = config.encoding->growth(method_model(config), turns.n_pairs);
  const std::int64_t size = seq_len * turns.n_pairs;
  turns.cosines = AlignedBuffer<T>(static_cast<std::size_t>(size));
  turns.sines = AlignedBuffer<T>(static_cast<std::size_t>(size));
  if (grown) {
    turns.key_cosines = AlignedBuffer<T>(static_cast<std::size_t>(size));
    turns.key_sines = AlignedBuffer<T>(static_cast<std::size_t>(size));
  }
  for (std::int64_t position = 0; position < seq_len; ++position) {
    // Counted from the middle of the text: scores depend on the distance alone, and the factors stay near 1.
    const std::vector<double> growth =
        grown ? grown(static_cast<double>(position - seq_len / 2)) : std::vector<double>();
    for (std::int64_t i = 0; i < turns.n_pairs; ++i) {
      const double angle = static_cast<double>(position) * rope.inv_freq[static_cast<std::size_t>(i)];
      const double c = rope.attention_factor * std::cos(angle), s = rope.attention_factor * std::sin(angle);
      const std::int64_t at = position * turns.n_pairs + i;
      const double grow = grown ? growth[static_cast<std::size_t>(i)] : 1;
      turns.cosines.data()[at] = static_cast<T>(c * grow);
      turns.sines.data()[at] = static_cast<T>(s * grow);
      if (!grown) continue;
      turns.key_cosines.data()[at] = static_cast<T>(c / grow);
      turns.key_sines.data()[at] = static_cast<T>(s / grow);
    }
  }
  return turns;
}

template <>
void turn(RopeLayout layout, bool inverse, float* x, std::int64_t stride, std::int64_t rows, std::int64_t n_pairs,
          const float* cosines, const float* sines) {
  RotationRows r;
  r.half = layout == RopeLayout::half;
  r.inverse = inverse;
  r.x = r.out = x;
  r.x_stride = r.out_stride = static_cast<std::size_t>(stride);
  r.rows = static_cast<std::size_t>(rows);
  r.n_pairs = static_cast<std::size_t>(n_pairs);
  r.width = 2 * r.n_pairs;
  r.cosines = cosines;
  r.sines = sines;
  r.table_stride = r.n_pairs;
  rotate_rows(r);
}

template <>
void turn(RopeLayout layout, bool inverse, double* x, std::int64_t stride, std::int64_t rows, std::int64_t n_pairs,
          const double* cosines, const double* sines) {
  for (std::int64_t r = 0; r < rows; ++r, x += stride, cosines += n_pairs, sines += n_pairs) {
    for (std::int64_t i = 0; i < n_pairs; ++i) {
      const PairChannels pair = rope_pair_channels(layout, 2 * n_pairs, i);
      const double a = x[pair.first], b = x[pair.second], s = inverse ? -sines[i] : sines[i];
      x[pair.first] = a * cosines[i] - b * s;
      x[pair.second] = a * s + b * cosines[i];
    }
  }
}

template Turns<float> make_turns(const TransformerConfig&, const RopeFrequencies&, std::int64_t);
template Turns<double> make_turns(const TransformerConfig&, const RopeFrequencies&, std::int64_t);

}  // namespace poslab
