// How deployed models stretch RoPE: each method maps (theta, dim, its parameters) to inverse frequencies in double and
// the factor that multiplies cos and sin.
//
// Written below: w_i = theta^(-2i / dim), dim = rotary_dim; k = factor; O = original_max_position_embeddings, the
// length of pre-training (else M); M = max_position_embeddings; wavelength_i = 2 pi / w_i. What Hugging Face
// transformers does is the rule wherever a paper and its deployed code differ; every method was checked against
// transformers 5.16 run on 110 configs (tests/golden/rope_frequencies.json).
//
// Every function follows upstream's arithmetic also for values that make little sense (factor < 1, beta_fast below
// beta_slow, an odd rotary_dim), as model files need; refusing them in flags is the caller's. Each throws
// std::invalid_argument "[rope_scaling] ..." for a parameter that is absent, or for which the formula has no value.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "poslab/core/fields.h"

namespace poslab {

enum class RopeType { default_, linear, ntk, ntk_by_parts, dynamic, yarn, longrope, llama3, proportional };
constexpr auto words(RopeType) {
  return word_table<RopeType>({{RopeType::default_, "default"},
                               {RopeType::linear, "linear"},
                               {RopeType::ntk, "ntk"},
                               {RopeType::ntk_by_parts, "ntk_by_parts"},
                               {RopeType::dynamic, "dynamic"},
                               {RopeType::yarn, "yarn"},
                               {RopeType::longrope, "longrope"},
                               {RopeType::llama3, "llama3"},
                               {RopeType::proportional, "proportional"}});
}

// YaRN's ramp: `code` is linear in the pair's index (every deployed implementation), `paper` linear in L / wavelength.
enum class YarnRamp { code, paper };
constexpr auto words(YarnRamp) { return word_table<YarnRamp>({{YarnRamp::code, "code"}, {YarnRamp::paper, "paper"}}); }

// The parameters of one RoPE set, resolved: what is absent has no value anywhere. Names as in Hugging Face configs.
struct RopeScaling {
  RopeType rope_type = RopeType::default_;
  double rope_theta = 10000;
  std::int64_t head_dim = 128;
  std::int64_t rotary_dim = 128;     // channels that turn; frequencies are spread over it (proportional: over head_dim)
  double partial_rotary_factor = 1;  // proportional reads it: pairs beyond it stand still
  std::optional<double> factor;
  std::optional<double> original_max_position_embeddings;  // length of pre-training, tokens
  std::optional<double> max_position_embeddings;
  std::optional<double> attention_factor;  // yarn, longrope: replaces the computed one
  double beta_fast = 32, beta_slow = 1;    // YaRN: turns within the original length
  std::optional<double> mscale, mscale_all_dim;
  bool truncate = true;  // YaRN: round the ramp's ends to whole pairs
  YarnRamp yarn_ramp = YarnRamp::code;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  std::vector<double> short_factor, long_factor;     // longrope, [pairs]
};

struct RopeFrequencies {
  std::vector<double> inv_freq;  // [rotary_dim / 2], radians per token
  double attention_factor = 1;   // multiplies cos and sin, so logits carry its square
};

// The frequencies that scaling.rope_type gives; seq_len is the length that dynamic and longrope look at (absent: the
// model as loaded: M for dynamic, the short factors for longrope).
RopeFrequencies rope_frequencies(const RopeScaling& scaling, std::optional<std::int64_t> seq_len = std::nullopt);

// w_i (RoFormer, arXiv:2104.09864, eq. 15). An odd rotary_dim has (dim + 1) / 2 pairs, as upstream. A plain change of
// base, "ABF" (Xiong et al. 2023, arXiv:2309.16039), is this with another rope_theta.
RopeFrequencies default_frequencies(const RopeScaling& scaling);

// Position interpolation: w_i / k (Chen et al. 2023, arXiv:2306.15595, eq. 4).
RopeFrequencies linear_frequencies(const RopeScaling& scaling);

// NTK-aware scaling, static: base ntk_theta(...) (bloc97 2023; YaRN, arXiv:2309.00071, Definition 1).
RopeFrequencies ntk_frequencies(const RopeScaling& scaling);

// NTK-by-parts: w_i g + w_i / k (1 - g), g = clamp((O / wavelength - beta_slow) / (beta_fast - beta_slow), 0, 1)
// (YaRN, arXiv:2309.00071, Definition 2; its alpha = beta_slow, beta = beta_fast).
RopeFrequencies ntk_by_parts_frequencies(const RopeScaling& scaling);

// Dynamic NTK: base dynamic_theta(...) (emozilla 2023; YaRN, arXiv:2309.00071, Dynamic Scaling). O is ignored, unless M
// is absent.
RopeFrequencies dynamic_frequencies(const RopeScaling& scaling, std::optional<std::int64_t> seq_len = std::nullopt);

// YaRN: w_i (1 - r_i) + w_i / k r_i, r_i = clamp((i - low) / (high - low), 0, 1) with yarn_range's ends (the ramp of
// the authors' code and of every engine), or the NTK-by-parts g where yarn_ramp is paper; attention factor
// yarn_attention_factor(...) (Peng et al. 2023, arXiv:2309.00071, Definition 3). k absent: M / O.
RopeFrequencies yarn_frequencies(const RopeScaling& scaling);

// LongRoPE: w_i / long_factor_i when seq_len > O, else w_i / short_factor_i (Ding et al. 2024, arXiv:2402.13753, eq.
// 3); attention factor attention_factor, else 1 where k <= 1, else sqrt(1 + ln k / ln O). k absent: M / O.
RopeFrequencies longrope_frequencies(const RopeScaling& scaling, std::optional<std::int64_t> seq_len = std::nullopt);

// Llama 3.1: w_i where wavelength < O / high_freq_factor, w_i / k where wavelength > O / low_freq_factor, between them
// w_i / k (1 - s) + w_i s, s = (O / wavelength - low) / (high - low) (Meta, llama-models, apply_scaling, 2024).
RopeFrequencies llama3_frequencies(const RopeScaling& scaling);

// p-RoPE: floor(p head_dim / 2) pairs theta^(-2i / head_dim) / k, then pairs that stand still, head_dim / 2 in all,
// p = partial_rotary_factor (Barbero et al. 2024, arXiv:2410.06205; Gemma 4). k absent: 1.
RopeFrequencies proportional_frequencies(const RopeScaling& scaling);

// theta k^(dim / (dim - 2)): the last pair is slowed by k, the first not at all (YaRN, Definition 1).
double ntk_theta(double rope_theta, double factor, std::int64_t rotary_dim);

// theta (k L / M - (k - 1))^(dim / (dim - 2)), L = max(seq_len, M): theta itself up to M.
double dynamic_theta(const RopeScaling& scaling, std::optional<std::int64_t> seq_len = std::nullopt);

// The base whose slowest trained pair, at the target length, ends where it ended in training:
// theta^(ln(target / 2 pi) / ln(trained / 2 pi)) (Liu et al. 2023, arXiv:2310.05209, the critical base). Lengths in
// tokens.
double critical_theta(double rope_theta, double trained_length, double target_length);

// The pair, as a real index, that makes exactly one turn within `length` tokens: dim ln(length / 2 pi) / (2 ln theta);
// pairs from its ceiling on never finish a turn (Liu et al. 2023, arXiv:2310.05209: the critical dimension is
// twice that ceiling).
double critical_pair(double rope_theta, double length, std::int64_t rotary_dim);

// The ends of YaRN's ramp in pairs: low from beta_fast, high from beta_slow by dim ln(O / (2 pi beta)) / (2 ln theta);
// truncate takes floor and ceiling; then low is at least 0, high at most dim - 1, and equal ends are 0.001 apart.
struct YarnRange {
  double low = 0, high = 0;
};
YarnRange yarn_range(const RopeScaling& scaling);

// 1 where scale <= 1, else 0.1 mscale ln(scale) + 1 (YaRN's sqrt(1/t); DeepSeek-V2's mscale).
double yarn_mscale(double scale, double mscale = 1);

// attention_factor if given (0 counts); else yarn_mscale(k, mscale) / yarn_mscale(k, mscale_all_dim) if both are given
// and not 0; else yarn_mscale(k).
double yarn_attention_factor(const RopeScaling& scaling);

// What DeepSeek-V2 and V3 (MLA) multiply the softmax scale by, apart from the attention factor:
// yarn_mscale(k, mscale_all_dim)^2, 1 without mscale_all_dim.
double mla_softmax_multiplier(const RopeScaling& scaling);

// k: factor, else M / O (what transformers does for yarn and longrope when factor is null).
double effective_factor(const RopeScaling& scaling);

// O: original_max_position_embeddings, else M.
double original_length(const RopeScaling& scaling);

}  // namespace poslab
