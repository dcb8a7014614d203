// Position interpolation: w_i / k (Chen et al. 2023, arXiv:2306.15595, eq. 4).
#include <fmt/format.h>

#include "poslab/rope/ggml.h"
#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scaling_mistakes.h"
#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

RopeFrequencies frequencies(const RopeScaling& s, FollowedLength) {
  const double k = required_factor(s);
  std::vector<double> inv_freq = plain_inv_freq(s.rotary_dim, s.rope_theta);
  for (double& w : inv_freq) w /= k;
  return {std::move(inv_freq), 1};
}

std::vector<float> hf_f32(const RopeScaling& s, FollowedLength) {
  std::vector<float> out = plain_inv_freq_f32(s.rope_theta, s.rotary_dim);
  for (float& w : out) w /= static_cast<float>(*s.factor);
  return out;
}

bool to_ggml(GgmlRope& rope, const RopeScaling& s, FollowedLength) {
  rope.freq_scale = 1 / effective_factor(s);
  return true;
}

std::string llama_cpp_flags(const GgmlRope& rope) {
  return fmt::format("--rope-scaling linear --rope-freq-scale {} ", rope.freq_scale);
}

std::vector<ScalingMistake> mistakes(const RopeScaling& meant, FollowedLength seq_len) {
  MistakeList list(meant, seq_len);
  list.ignored("linear factor missing");
  list.parameters("linear factor applied twice", [](RopeScaling& s) { s.factor = *s.factor * *s.factor; });
  list.parameters("linear factor inverted", [](RopeScaling& s) { s.factor = 1 / *s.factor; });
  list.parameters("factor inside the power", [](RopeScaling& s) {
    s.rope_type = RopeType();
    s.rope_theta *= *s.factor;
  });
  return list.take();
}

}  // namespace

const Scaling linear_scaling{
    .word = "linear",
    .title = "position interpolation",
    .sentence = "divides every frequency by the factor",
    .source = "Chen et al. 2023, arXiv:2306.15595, eq. 4",
    .used_by = "LongChat, Vicuna 16k, Gemma 3, DeepSeek Coder",
    .frequencies = frequencies,
    .hf_f32 = hf_f32,
    .to_ggml = to_ggml,
    .mistakes = mistakes,
    .config = {.required = {"factor"}},
    .engines = {.in_gguf = true, .vllm_multiplies_length = true, .llama_cpp_flags = llama_cpp_flags},
};

}  // namespace poslab
