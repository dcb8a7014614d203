// LongRoPE: w_i / long_factor_i when seq_len > O, else w_i / short_factor_i (Ding et al. 2024, arXiv:2402.13753, eq.
// 3); attention factor attention_factor, else 1 where k <= 1, else sqrt(1 + ln k / ln O). k absent: M / O.
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scaling_mistakes.h"
#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

const std::vector<double>& divisors(const RopeScaling& s, FollowedLength seq_len) {
  return seq_len && static_cast<double>(*seq_len) > original_length(s) ? s.long_factor : s.short_factor;
}

RopeFrequencies frequencies(const RopeScaling& s, FollowedLength seq_len) {
  const double k = effective_factor(s);
  const double original = original_length(s);
  std::vector<double> inv_freq = plain_inv_freq(s.rotary_dim, s.rope_theta);
  for (const auto& [name, list] : {std::pair{"short_factor", &s.short_factor}, {"long_factor", &s.long_factor}}) {
    if (list->size() != inv_freq.size()) {
      throw std::invalid_argument(
          fmt::format("[rope_scaling] longrope needs {} with one value per pair, {}, but it has {}.", name,
                      inv_freq.size(), list->size()));
    }
  }
  const std::vector<double>& by = divisors(s, seq_len);
  for (std::size_t i = 0; i < inv_freq.size(); ++i) inv_freq[i] /= by[i];
  const double computed = k <= 1 ? 1 : std::sqrt(1 + std::log(k) / std::log(original));
  return {std::move(inv_freq), s.attention_factor.value_or(computed)};
}

std::vector<float> hf_f32(const RopeScaling& s, FollowedLength seq_len) {
  const std::vector<double>& by = divisors(s, seq_len);
  std::vector<float> out = powers_f32(s.rope_theta, s.rotary_dim);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = 1.0f / (static_cast<float>(by[i]) * out[i]);
  return out;
}

std::string lacks(const RopeScaling& s) {
  if (!s.short_factor.empty() && !s.long_factor.empty()) return "";
  return fmt::format("longrope needs short_factor and long_factor, one divisor for each of the {} pairs.",
                     (s.rotary_dim + 1) / 2);
}

std::string_view attention_rule(const RopeScaling&) {
  return "derived: sqrt(1 + ln(factor) / ln(original)) where factor > 1";
}

std::string error(const RopeScaling& s) {
  if (*s.original_max_position_embeddings > 1) return "";
  return fmt::format("original_max_position_embeddings must be above 1 for longrope but is {}",
                     *s.original_max_position_embeddings);
}

std::string note(const RopeScaling&, double, std::int64_t) {
  return "llama.cpp reads the factors from the GGUF file: put rope_scaling into config.json and convert";
}

std::string short_text_cost(double trained_length) {
  return fmt::format("short_factor's own up to {} tokens; keys cached before the crossing keep the short rotation",
                     trained_length);
}

std::string length_note(double, std::int64_t, double trained_length) {
  return fmt::format(
      "Depends on seq_len: short_factor up to {} tokens, long_factor beyond. Keys cached before the crossing keep the "
      "short rotation.",
      trained_length);
}

std::vector<ScalingMistake> mistakes(const RopeScaling& meant, FollowedLength seq_len) {
  MistakeList list(meant, seq_len);
  RopeScaling formula = meant;
  formula.attention_factor.reset();
  const double computed = rope_frequencies(formula, seq_len).attention_factor;
  list.attention_factor("attention factor ignored, the formula used", computed);
  list.attention_factor("attention factor multiplied by the formula", computed * list.meant().attention_factor);
  list.ignored();
  const bool is_long = static_cast<double>(seq_len.value_or(0)) > original_length(meant);
  list.parameters(is_long ? "short factors used long" : "long factors used short", [&](RopeScaling& s) {
    (is_long ? s.long_factor : s.short_factor) = is_long ? s.short_factor : s.long_factor;
  });
  return list.take();
}

}  // namespace

const Scaling longrope_scaling{
    .word = "longrope",
    .title = "LongRoPE",
    .sentence =
        "divides each pair's frequency by a searched factor of its own, one list up to the original length and "
        "another beyond it",
    .source = "Ding et al. 2024, arXiv:2402.13753, eq. 3",
    .used_by = "Phi-3, Phi-3.5, Phi-4-mini, MiniCPM",
    .needs_original_length = true,
    .follows_length = FollowsLength::beyond_original,
    .frequencies = frequencies,
    .hf_f32 = hf_f32,
    .to_ggml = ggml_by_factors,
    .lacks = lacks,
    .mistakes = mistakes,
    .length_note = length_note,
    .config = {.required = {"short_factor", "long_factor"},
               .optional = {"factor", "original_max_position_embeddings", "attention_factor"},
               .factor_from_lengths = true,
               .uses_head_dim_as_is = true,
               .error = error,
               .attention_rule = attention_rule},
    .engines = {.in_gguf = true, .note = note, .short_text_cost = short_text_cost},
};

}  // namespace poslab
