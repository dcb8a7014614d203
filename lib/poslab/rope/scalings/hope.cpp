// HoPE, the high-frequency one (Chen et al. 2024, arXiv:2410.21216, "HoPE: A Novel Positional Encoding Without
// Long-Term Decay"; not the hyperbolic or the hybrid one of the same name): the slow pairs, which never finish a
// rotation within the trained length, stand still and carry no position; the others keep their frequency.
#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

RopeFrequencies frequencies(const RopeScaling& s, FollowedLength) {
  const double trained = original_length(s);
  std::vector<double> inv_freq = plain_inv_freq(s.rotary_dim, s.rope_theta);
  for (double& w : inv_freq) {
    if (trained * w < two_pi) w = 0;
  }
  return {std::move(inv_freq), 1};
}

std::string_view unnamed(const RopeScaling& s) { return s.rope_type.word(); }

}  // namespace

const Scaling hope_scaling{
    .word = "hope",
    .title = "HoPE",
    .sentence = "lets the slow pairs, which never finish a rotation within the trained length, stand still",
    .source = "Chen et al. 2024, arXiv:2410.21216",
    .used_by = "the paper's models; no engine",
    .uses_factor = false,
    .needs_original_length = true,
    .part_of_training = true,
    .only_when_asked = true,
    .frequencies = frequencies,
    .config = {.optional = {"original_max_position_embeddings"}, .in_transformers = false, .unnamed = unnamed},
    .engines = {.in_vllm = false},
};

}  // namespace poslab
