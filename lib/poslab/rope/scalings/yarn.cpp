// YaRN: w_i (1 - r_i) + w_i / k r_i, r_i = clamp((i - low) / (high - low), 0, 1) with yarn_range's ends (the ramp of
// the authors' code and of every engine), or NTK-by-parts' ramp where yarn_ramp is paper; attention factor
// yarn_attention_factor (Peng et al. 2023, arXiv:2309.00071, Definition 3). k absent: M / O.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "poslab/rope/ggml.h"
#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scaling_mistakes.h"
#include "poslab/rope/scalings.h"

namespace poslab {
namespace {

double code_ramp(double pair, const YarnRange& range) {
  return std::clamp((pair - range.low) / (range.high - range.low), 0.0, 1.0);
}

RopeFrequencies frequencies(const RopeScaling& s, FollowedLength) {
  const double k = effective_factor(s);
  const double original = original_length(s);
  const YarnRange range = yarn_range(s);
  std::vector<double> inv_freq = plain_inv_freq(s.rotary_dim, s.rope_theta);
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const double weight =
        s.yarn_ramp == YarnRamp::code ? code_ramp(static_cast<double>(i), range) : paper_ramp(inv_freq[i], original, s);
    inv_freq[i] = blend(inv_freq[i], k, weight);
  }
  return {std::move(inv_freq), yarn_attention_factor(s)};
}

std::vector<float> hf_f32(const RopeScaling& s, FollowedLength seq_len) {
  std::vector<float> out = powers_f32(s.rope_theta, s.rotary_dim);
  if (s.yarn_ramp == YarnRamp::paper) {  // not upstream's: narrowed once
    const std::vector<double> wide = frequencies(s, seq_len).inv_freq;
    std::ranges::transform(wide, out.begin(), [](double w) { return static_cast<float>(w); });
    return out;
  }
  const float factor = static_cast<float>(effective_factor(s));
  const YarnRange range = yarn_range(s);
  const float low = static_cast<float>(range.low), span = static_cast<float>(range.high - range.low);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float extrapolated = 1.0f / out[i];
    const float interpolated = 1.0f / (factor * out[i]);
    const float ramp = std::clamp((static_cast<float>(i) - low) / span, 0.0f, 1.0f);
    const float keep = 1.0f - ramp;
    out[i] = interpolated * (1.0f - keep) + extrapolated * keep;
  }
  return out;
}

// ggml rounds the ramp's ends always.
bool to_ggml(GgmlRope& rope, const RopeScaling& s, FollowedLength) {
  if (!s.truncate || s.yarn_ramp == YarnRamp::paper || s.beta_fast <= s.beta_slow) return false;
  rope.freq_scale = 1 / effective_factor(s);
  rope.ext_factor = 1;
  rope.attn_factor = yarn_attention_factor(s) / (1 + 0.1 * std::log(effective_factor(s)));
  return true;
}

std::string llama_cpp_flags(const GgmlRope& rope) {
  std::string flags =
      fmt::format("--rope-scaling yarn --rope-freq-scale {} --yarn-orig-ctx {} ", rope.freq_scale, rope.n_ctx_orig);
  if (std::abs(rope.attn_factor - 1) > 1e-12) flags += fmt::format("--yarn-attn-factor {} ", rope.attn_factor);
  if (rope.beta_fast != 32) flags += fmt::format("--yarn-beta-fast {} ", rope.beta_fast);
  if (rope.beta_slow != 1) flags += fmt::format("--yarn-beta-slow {} ", rope.beta_slow);
  return flags;
}

double attention_formula(double factor) { return yarn_mscale(factor); }

std::string_view attention_rule(const RopeScaling& s) {
  return s.mscale.value_or(0) != 0 && s.mscale_all_dim.value_or(0) != 0
             ? "derived: (0.1 mscale ln(factor) + 1) / (0.1 mscale_all_dim ln(factor) + 1)"
             : "derived: 0.1 ln(factor) + 1";
}

std::string_view unnamed(const RopeScaling& s) {
  return s.yarn_ramp == YarnRamp::paper ? "yarn with the paper's ramp" : "";
}

std::string error(const RopeScaling& s) {
  if (s.rotary_dim % 2 != 0)
    return fmt::format("rotary_dim {} is odd, for which yarn's ramp has no shape", s.rotary_dim);
  if (s.rope_theta == 1) return "rope_theta 1 leaves yarn's ramp without a value (it divides by ln(rope_theta))";
  return "";
}

std::vector<std::string> doubts(const RopeScaling& s) {
  if (s.beta_fast >= s.beta_slow) return {};
  return {fmt::format("beta_fast {} is below beta_slow {}: the ramp runs backwards.", s.beta_fast, s.beta_slow)};
}

std::string note(const RopeScaling& s, double attention_factor, std::int64_t) {
  std::vector<std::string> notes;
  if (s.yarn_ramp == YarnRamp::paper) notes.emplace_back("no engine has the paper's ramp");
  if (!s.truncate) notes.emplace_back("llama.cpp always rounds the ramp's ends: no flags");
  const double formula = yarn_mscale(*s.factor);
  if (std::abs(attention_factor / formula - 1) > 1e-12) {
    notes.push_back(fmt::format(
        "attention factor {:.8g}: Hugging Face's replaces the formula's {:.8g}, llama.cpp's and vLLM's multiply it, "
        "hence {:.8g} there; llama.cpp since pull request 17945 sets its own and ignores the flag",
        attention_factor, formula, attention_factor / formula));
  }
  return fmt::format("{}", fmt::join(notes, ". "));
}

void add_attention_factors(const RopeScaling& meant, FollowedLength seq_len, MistakeList& list) {
  const double factor = list.meant().attention_factor;
  RopeScaling formula = meant;
  formula.attention_factor.reset();
  const double computed = rope_frequencies(formula, seq_len).attention_factor;
  const double k = effective_factor(meant);
  list.attention_factor("attention factor ignored, the formula used", computed);
  list.attention_factor("attention factor multiplied by the formula", computed * factor);
  list.attention_factor("attention factor log of log", yarn_mscale(k, factor));
  list.attention_factor("attention factor log of log", yarn_mscale(factor));
  list.attention_factor("attention factor without the mscale ratio", yarn_mscale(k));
}

std::vector<ScalingMistake> mistakes(const RopeScaling& meant, FollowedLength seq_len) {
  MistakeList list(meant, seq_len);
  add_attention_factors(meant, seq_len, list);
  list.ignored("YaRN block ignored");
  list.parameters(meant.truncate ? "YaRN ramp not rounded" : "YaRN ramp rounded",
                  [](RopeScaling& s) { s.truncate = !s.truncate; });
  list.parameters(
      meant.yarn_ramp == YarnRamp::code ? "YaRN ramp of the paper" : "YaRN ramp of the code",
      [](RopeScaling& s) { s.yarn_ramp = s.yarn_ramp == YarnRamp::code ? YarnRamp::paper : YarnRamp::code; });
  list.parameters("beta_fast and beta_slow swapped", [](RopeScaling& s) { std::swap(s.beta_fast, s.beta_slow); });
  const double k = effective_factor(meant);
  const std::vector<double> plain = plain_inv_freq(meant.rotary_dim, meant.rope_theta);
  list.frequencies("factor inside the power", [&](std::vector<double>& inv_freq) {
    const std::vector<double> stretched = plain_inv_freq(meant.rotary_dim, meant.rope_theta * k);
    for (std::size_t i = 0; i < inv_freq.size(); ++i) {
      // The weight of the stretched frequency, from the multiplier: w (1 - r) + w / k r.
      const double share = (1 - inv_freq[i] / plain[i]) / (1 - 1 / k);
      inv_freq[i] = plain[i] * (1 - share) + stretched[i] * share;
    }
  });
  list.frequencies("YaRN ramp inverted", [&](std::vector<double>& inv_freq) {
    for (std::size_t i = 0; i < inv_freq.size(); ++i) inv_freq[i] = plain[i] + plain[i] / k - inv_freq[i];
  });
  list.frequencies("YaRN ramp clamped to the number of pairs", [&](std::vector<double>& inv_freq) {
    YarnRange range = yarn_range(meant);
    range.high = std::min(range.high, static_cast<double>(inv_freq.size()) - 1);
    for (std::size_t i = 0; i < inv_freq.size(); ++i) {
      const double r = code_ramp(static_cast<double>(i), range);
      inv_freq[i] = plain[i] * (1 - r) + plain[i] / k * r;
    }
  });
  return list.take();
}

}  // namespace

const Scaling yarn_scaling{
    .word = "yarn",
    .title = "YaRN",
    .sentence =
        "divides the frequencies of slow pairs by the factor, keeps fast pairs, blends those between, and "
        "multiplies cos and sin by an attention factor",
    .source = "Peng et al. 2023, arXiv:2309.00071, Definition 3",
    .used_by = "DeepSeek V2 and V3, gpt-oss, Qwen beyond 32k, Ministral 3, Kimi K2",
    .needs_original_length = true,
    .frequencies = frequencies,
    .hf_f32 = hf_f32,
    .to_ggml = to_ggml,
    .mistakes = mistakes,
    .config = {.required = {"factor"},
               .optional = {"original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow",
                            "truncate", "mscale", "mscale_all_dim"},
               .factor_from_lengths = true,
               .compares_lengths = true,
               .uses_head_dim_as_is = true,
               .reals = {"attention_factor"},
               .error = error,
               .doubts = doubts,
               .attention_rule = attention_rule,
               .unnamed = unnamed},
    .engines = {.in_gguf = true,
                .vllm_multiplies_length = true,
                .attention_formula = attention_formula,
                .llama_cpp_flags = llama_cpp_flags,
                .note = note},
};

}  // namespace poslab
