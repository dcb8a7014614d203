// Formulas that several scalings, engines or model families share.
//
// Written below: w_i = theta^(-2i / dim), dim = rotary_dim; k = factor; O = original_max_position_embeddings, the
// length of pre-training (else M); M = max_position_embeddings; wavelength_i = 2 pi / w_i. Each throws
// std::invalid_argument "[rope_scaling] ..." for a parameter that is absent, or for which the formula has no value.
#pragma once

#include <numbers>
#include <vector>

#include "poslab/rope/scaling.h"

namespace poslab {

inline constexpr double two_pi = 2 * std::numbers::pi;

// O: original_max_position_embeddings, else M.
double original_length(const RopeScaling& scaling);

// k, which must be given.
double required_factor(const RopeScaling& scaling);

// k: factor, else M / O (what transformers does for some types when factor is null).
double effective_factor(const RopeScaling& scaling);

// w_i (RoFormer, arXiv:2104.09864, eq. 15). An odd dim has (dim + 1) / 2 pairs, as upstream.
std::vector<double> plain_inv_freq(std::int64_t dim, double rope_theta);
// The same in f32, as transformers computes it.
std::vector<float> plain_inv_freq_f32(double rope_theta, std::int64_t dim);
// theta^(2i / dim) in f32.
std::vector<float> powers_f32(double rope_theta, std::int64_t dim);

// w / k where weight is 1, w where it is 0.
inline double blend(double w, double k, double weight) { return w / k * weight + w * (1 - weight); }

// The share of w / k, by rotations within O: 1 - clamp((O / wavelength - beta_slow) / (beta_fast - beta_slow), 0, 1)
// (Peng et al. 2023, arXiv:2309.00071, Definition 2; its alpha = beta_slow, beta = beta_fast).
double paper_ramp(double w, double original, const RopeScaling& scaling);

// theta k^(dim / (dim - 2)): the last pair is slowed by k, the first not at all (arXiv:2309.00071, Definition 1).
double ntk_theta(double rope_theta, double factor, std::int64_t rotary_dim);

// theta (k L / M - (k - 1))^(dim / (dim - 2)), L = max(seq_len, M): theta itself up to M.
double dynamic_theta(const RopeScaling& scaling, FollowedLength seq_len = std::nullopt);

// The base whose slowest trained pair, at the target length, ends where it ended in training:
// theta^(ln(target / 2 pi) / ln(trained / 2 pi)) (Liu et al. 2023, arXiv:2310.05209, the critical base). Lengths in
// tokens.
double critical_theta(double rope_theta, double trained_length, double target_length);

// The pair, as a real index, that makes exactly one rotation within `length` tokens: dim ln(length / 2 pi) / (2 ln
// theta); pairs from its ceiling on never finish one (Liu et al. 2023, arXiv:2310.05209: the critical dimension is
// twice that ceiling).
double critical_pair(double rope_theta, double length, std::int64_t rotary_dim);

// The ends of the ramp in pairs: low from beta_fast, high from beta_slow by dim ln(O / (2 pi beta)) / (2 ln theta);
// truncate takes floor and ceiling; then low is at least 0, high at most dim - 1, and equal ends are 0.001 apart.
struct YarnRange {
  double low = 0, high = 0;
};
YarnRange yarn_range(const RopeScaling& scaling);

// 1 where scale <= 1, else 0.1 mscale ln(scale) + 1 (the paper's sqrt(1/t); DeepSeek-V2's mscale).
double yarn_mscale(double scale, double mscale = 1);

// attention_factor if given (0 counts); else yarn_mscale(k, mscale) / yarn_mscale(k, mscale_all_dim) if both are given
// and not 0; else yarn_mscale(k).
double yarn_attention_factor(const RopeScaling& scaling);

// What DeepSeek-V2 and V3 (MLA) multiply the softmax scale by, apart from the attention factor:
// yarn_mscale(k, mscale_all_dim)^2, 1 without mscale_all_dim.
double mla_softmax_multiplier(const RopeScaling& scaling);

// For Scaling's hooks: a rotary_dim of 2 has no pair that ntk_theta could slow down.
std::string lacks_a_second_pair(const RopeScaling& scaling);
// For Scaling's hooks: freq_factors for what no parameter of ggml gives.
bool ggml_by_factors(GgmlRope& rope, const RopeScaling& scaling, FollowedLength seq_len);
// For Scaling's hooks: llama.cpp's flags for another base.
std::string llama_cpp_base_flags(const GgmlRope& rope);

}  // namespace poslab
