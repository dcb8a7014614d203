// NTK-by-parts: w_i g + w_i / k (1 - g), g = clamp((O / wavelength - beta_slow) / (beta_fast - beta_slow), 0, 1)
// (Peng et al. 2023, arXiv:2309.00071, Definition 2; its alpha = beta_slow, beta = beta_fast).
#include <fmt/format.h>

#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

RopeFrequencies frequencies(const RopeScaling& s, FollowedLength) {
  const double k = effective_factor(s);
  const double original = original_length(s);
  std::vector<double> inv_freq = plain_inv_freq(s.rotary_dim, s.rope_theta);
  for (double& w : inv_freq) w = blend(w, k, paper_ramp(w, original, s));
  return {std::move(inv_freq), 1};
}

std::string note(const RopeScaling&, double, std::int64_t) {
  return fmt::format("the paper's formula; no engine deploys it, {} is its successor", yarn_scaling.word);
}

std::string_view unnamed(const RopeScaling& s) { return s.rope_type.word(); }

}  // namespace

const Scaling ntk_by_parts_scaling{
    .word = "ntk_by_parts",
    .title = "NTK-by-parts",
    .sentence = "divides the frequencies of slow pairs by the factor, keeps fast pairs, and blends those between",
    .source = "Peng et al. 2023, arXiv:2309.00071, Definition 2",
    .used_by = "no engine",
    .needs_original_length = true,
    .frequencies = frequencies,
    .config = {.required = {"factor"},
               .optional = {"original_max_position_embeddings", "beta_fast", "beta_slow"},
               .in_transformers = false,
               .factor_from_lengths = true,
               .unnamed = unnamed},
    .engines = {.in_vllm = false, .note = note},
};

}  // namespace poslab
