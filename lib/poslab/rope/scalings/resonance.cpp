// Resonance RoPE (Wang et al. 2024, arXiv:2403.00071, section 4): every wavelength 2 pi / w rounded to whole tokens, so
// that a pair comes back to the same angles after each rotation. The paper joins it with the ramp and the attention
// factor of Peng et al. 2023; so does this, and at factor 1 that leaves the plain frequencies to round.
#include <cmath>

#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

RopeFrequencies frequencies(const RopeScaling& s, FollowedLength seq_len) {
  RopeFrequencies out = yarn_scaling.frequencies(s, seq_len);
  for (double& w : out.inv_freq) w = two_pi / std::round(two_pi / w);
  return out;
}

std::string error(const RopeScaling& s) { return yarn_scaling.config.error(s); }
std::vector<std::string> doubts(const RopeScaling& s) { return yarn_scaling.config.doubts(s); }
std::string_view attention_rule(const RopeScaling& s) { return yarn_scaling.config.attention_rule(s); }
std::string_view unnamed(const RopeScaling& s) { return s.rope_type.word(); }

}  // namespace

const Scaling resonance_scaling{
    .word = "resonance",
    .title = "Resonance RoPE",
    .sentence = "rounds every wavelength to whole tokens, after stretching slow pairs by the factor through a ramp",
    .source = "Wang et al. 2024, arXiv:2403.00071, section 4",
    .used_by = "the paper's models; no engine",
    .needs_original_length = true,
    .only_when_asked = true,
    .frequencies = frequencies,
    .config = {.required = {"factor"},
               .optional = {"original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow",
                            "truncate", "mscale", "mscale_all_dim"},
               .in_transformers = false,
               .factor_from_lengths = true,
               .error = error,
               .doubts = doubts,
               .attention_rule = attention_rule,
               .unnamed = unnamed},
    .engines = {.in_vllm = false},
};

}  // namespace poslab
