// Rotary position embedding (RoPE): each pair of channels turns by position * inv_freq (RoFormer, Su et al. 2021,
// arXiv:2104.09864, eq. 34).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "poslab/core/fields.h"

namespace poslab {

// Pairs for head_dim = 8, rotary_dim = 4 (c, s = the two members of a pair, 0 = copied):
//   RopeLayout::interleaved  [cscs0000]   pairs (2i, 2i+1): RoFormer, GPT-J, Cohere, GLM
//   RopeLayout::half         [ccss0000]   pairs (i, i + rotary_dim/2): GPT-NeoX, Llama and Qwen in Hugging Face
enum class RopeLayout { interleaved, half };
constexpr auto words(RopeLayout) {
  return word_table<RopeLayout>({{RopeLayout::interleaved, "interleaved"}, {RopeLayout::half, "half"}});
}

// The two channels of pair i, 0 <= i < rotary_dim / 2.
struct PairChannels {
  std::int64_t first, second;
};
constexpr PairChannels rope_pair_channels(RopeLayout layout, std::int64_t rotary_dim, std::int64_t i) {
  return layout == RopeLayout::interleaved ? PairChannels{2 * i, 2 * i + 1} : PairChannels{i, i + rotary_dim / 2};
}

// inv_freq[i] = rope_theta^(-2i / rotary_dim), i = 0 .. rotary_dim/2 - 1, radians per token (RoFormer, eq. 15).
// Throws std::invalid_argument "[rope_inv_freq] ..." for an odd or non-positive rotary_dim or a theta not above 0.
std::vector<double> rope_inv_freq(std::int64_t rotary_dim, double rope_theta);

// Rotates the first 2 * inv_freq.size() channels of each row of x by its position.
//
//   x          [n_heads, seq_len, head_dim]  queries or keys
//   positions  [seq_len]                     tokens; fractions allowed; negative turns backwards
//   inv_freq   [rotary_dim / 2]              radians per token
//   out        [n_heads, seq_len, head_dim]  may be x itself; channels from rotary_dim on are copied
//   attention_factor multiplies cos and sin (1 unless a scaling has one)
//
// Angles, cos and sin are taken in double and narrowed once. Throws std::invalid_argument "[apply_rope] ..." when
// shapes disagree.
template <class T>
void apply_rope(std::span<const T> x, std::span<T> out, std::int64_t n_heads, std::int64_t head_dim,
                std::span<const double> positions, std::span<const double> inv_freq, RopeLayout layout,
                double attention_factor = 1.0);

// What a rotation also multiplies each pair of a query at `position` by, [rotary_dim / 2]; keys are divided by it.
// Empty: by nothing.
using PairGrowth = std::function<std::vector<double>(double position)>;

// Multiplies the pairs of each row by the growth at its position, or divides them where `inverse`.
//   rows [positions.size(), head_dim]; pairs as many as the growth has
template <class T>
void grow_pairs(std::span<T> rows, std::int64_t head_dim, std::span<const double> positions, const PairGrowth& growth,
                bool inverse, RopeLayout layout);

// The sum of cos(frequency * distance), in order.
double cosine_sum(std::span<const double> frequencies, double distance);

}  // namespace poslab
