// NTK-aware scaling, static: another base, ntk_theta (bloc97 2023; Peng et al. 2023, arXiv:2309.00071, Definition 1).
#include "poslab/rope/ggml.h"
#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

double theta(const RopeScaling& s, FollowedLength) {
  return ntk_theta(s.rope_theta, effective_factor(s), s.rotary_dim);
}

RopeFrequencies frequencies(const RopeScaling& s, FollowedLength) {
  return {plain_inv_freq(s.rotary_dim, ntk_theta(s.rope_theta, required_factor(s), s.rotary_dim)), 1};
}

bool to_ggml(GgmlRope& rope, const RopeScaling& s, FollowedLength seq_len) {
  rope.freq_base = theta(s, seq_len);
  return true;
}

std::string note(const RopeScaling&, double, std::int64_t) {
  return "a new rope_theta, no scaling type: every engine knows it";
}

}  // namespace

const Scaling ntk_scaling{
    .word = "ntk",
    .title = "NTK-aware scaling",
    .sentence = "raises the base, so that slow pairs are slowed by the factor and the fastest pair is not",
    .source = "bloc97 2023; Peng et al. 2023, arXiv:2309.00071, Definition 1",
    .used_by = "Code Llama and Qwen as a larger rope_theta; HunYuan (alpha)",
    .frequencies = frequencies,
    .to_ggml = to_ggml,
    .theta = theta,
    .lacks = lacks_a_second_pair,
    .config = {.required = {"factor"}, .in_transformers = false},
    .engines = {.llama_cpp_flags = llama_cpp_base_flags, .note = note},
};

}  // namespace poslab
