// Dynamic NTK: the base dynamic_theta, which moves with the length (emozilla 2023; Peng et al. 2023, arXiv:2309.00071,
// Dynamic Scaling). The original length is ignored, unless max_position_embeddings is absent.
#include <fmt/format.h>

#include "poslab/rope/ggml.h"
#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

RopeFrequencies frequencies(const RopeScaling& s, FollowedLength seq_len) {
  return {plain_inv_freq(s.rotary_dim, dynamic_theta(s, seq_len)), 1};
}

std::vector<float> hf_f32(const RopeScaling& s, FollowedLength seq_len) {
  return plain_inv_freq_f32(dynamic_theta(s, seq_len), s.rotary_dim);
}

bool to_ggml(GgmlRope& rope, const RopeScaling& s, FollowedLength seq_len) {
  rope.freq_base = dynamic_theta(s, seq_len);
  return true;
}

std::string note(const RopeScaling&, double, std::int64_t target_length) {
  return fmt::format(
      "llama.cpp has no dynamic base and vLLM's ignores the length: their flags fix the base of {} tokens",
      target_length);
}

std::string short_text_cost(double trained_length) {
  return fmt::format("none up to {} tokens; the base then moves with the length, and keys cached earlier keep theirs",
                     trained_length);
}

std::string length_note(double theta, std::int64_t target_length, double) {
  return fmt::format(
      "Depends on seq_len: this is base {:.6g} at {} tokens. Keys cached at another length carry another base.", theta,
      target_length);
}

}  // namespace

const Scaling dynamic_scaling{
    .word = "dynamic",
    .title = "dynamic NTK",
    .sentence = "raises the base as the text grows beyond the trained length",
    .source = "emozilla 2023; Peng et al. 2023, arXiv:2309.00071, Dynamic Scaling",
    .used_by = "transformers (any Llama-like model), InternLM2, HunYuan",
    .needs_original_length = true,
    .trained_on_stated_length = true,
    .follows_length = FollowsLength::growing,
    .frequencies = frequencies,
    .hf_f32 = hf_f32,
    .to_ggml = to_ggml,
    .theta = dynamic_theta,
    .lacks = lacks_a_second_pair,
    .length_note = length_note,
    .config = {.required = {"factor"}, .uses_head_dim_as_is = true, .with_alpha = &ntk_scaling},
    .engines = {.llama_cpp_flags = llama_cpp_base_flags, .note = note, .short_text_cost = short_text_cost},
};

}  // namespace poslab
