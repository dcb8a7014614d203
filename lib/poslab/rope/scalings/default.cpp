// Plain RoPE: w_i = theta^(-2i / dim). A plain change of base, "ABF" (Xiong et al. 2023, arXiv:2309.16039), is this
// with another rope_theta.
#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

RopeFrequencies frequencies(const RopeScaling& s, FollowedLength) {
  return {plain_inv_freq(s.rotary_dim, s.rope_theta), 1};
}

std::vector<float> hf_f32(const RopeScaling& s, FollowedLength) {
  return plain_inv_freq_f32(s.rope_theta, s.rotary_dim);
}

bool to_ggml(GgmlRope&, const RopeScaling&, FollowedLength) { return true; }

}  // namespace

const Scaling default_scaling{
    .word = "default",
    .title = "plain RoPE",
    .sentence = "keeps the frequencies of pre-training",
    .source = "Su et al. 2021, arXiv:2104.09864, eq. 15",
    .used_by = "every model with RoPE that names no other type",
    .uses_factor = false,
    .part_of_training = true,
    .only_when_asked = true,
    .frequencies = frequencies,
    .hf_f32 = hf_f32,
    .to_ggml = to_ggml,
};

}  // namespace poslab
