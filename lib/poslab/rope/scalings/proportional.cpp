// p-RoPE: floor(p head_dim / 2) pairs theta^(-2i / head_dim) / k, then pairs that stand still, head_dim / 2 in all,
// p = partial_rotary_factor (Barbero et al. 2024, arXiv:2410.06205; Gemma 4). k absent: 1.
#include <cmath>

#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scaling_mistakes.h"
#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

RopeFrequencies frequencies(const RopeScaling& s, FollowedLength) {
  const double k = s.factor.value_or(1);
  std::vector<double> inv_freq = plain_inv_freq(s.head_dim, s.rope_theta);
  const double moving = std::floor(s.partial_rotary_factor * static_cast<double>(s.head_dim) / 2);
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    inv_freq[i] = static_cast<double>(i) < moving ? inv_freq[i] / k : 0;
  }
  return {std::move(inv_freq), 1};
}

std::vector<float> hf_f32(const RopeScaling& s, FollowedLength seq_len) {
  const std::vector<double> reference = frequencies(s, seq_len).inv_freq;
  const float factor = static_cast<float>(s.factor.value_or(1));
  std::vector<float> out = plain_inv_freq_f32(s.rope_theta, s.head_dim);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = reference[i] == 0 ? 0.0f : out[i] / factor;
  return out;
}

std::vector<ScalingMistake> mistakes(const RopeScaling& meant, FollowedLength seq_len) {
  MistakeList list(meant, seq_len);
  list.ignored();
  list.parameters("contiguous block instead of proportional pairs", [](RopeScaling& s) {
    s.rope_type = RopeType();
    s.rotary_dim = static_cast<std::int64_t>(static_cast<double>(s.head_dim) * s.partial_rotary_factor);
  });
  return list.take();
}

}  // namespace

const Scaling proportional_scaling{
    .word = "proportional",
    .title = "p-RoPE",
    .sentence = "lets only a share of the pairs rotate, the fastest of the whole head; the others stand still",
    .source = "Barbero et al. 2024, arXiv:2410.06205",
    .used_by = "Gemma 4",
    .spreads_over_head = true,
    .part_of_training = true,
    .only_when_asked = true,
    .frequencies = frequencies,
    .hf_f32 = hf_f32,
    .mistakes = mistakes,
    .config = {.optional = {"factor"}},
    .engines = {.in_vllm = false},
};

}  // namespace poslab
