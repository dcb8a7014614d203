// How deployed models stretch RoPE: each method maps (theta, dim, its parameters) to inverse frequencies in double and
// the factor that multiplies cos and sin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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
constexpr auto words(YarnRamp) {
  return word_table<YarnRamp>({{YarnRamp::code, "code"}, {YarnRamp::paper, "paper"}});
}

// The parameters of one RoPE set, resolved: what is absent has no value anywhere. Names as in Hugging Face configs.
struct RopeScaling {
  RopeType rope_type = RopeType::default_;
  double rope_theta = 10000;
  std::int64_t head_dim = 128;
  std::int64_t rotary_dim = 128;      // channels that turn; frequencies are spread over it
  double partial_rotary_factor = 1;   // proportional reads it: pairs beyond it stand still
  std::optional<double> factor;
  std::optional<double> original_max_position_embeddings;  // length of pre-training, tokens
  std::optional<double> max_position_embeddings;
  std::optional<double> attention_factor;                  // replaces the computed one
  double beta_fast = 32, beta_slow = 1;                    // YaRN: turns within the original length
  std::optional<double> mscale, mscale_all_dim;
  bool truncate = true;                                    // YaRN: round the ramp's ends to whole pairs
  YarnRamp yarn_ramp = YarnRamp::code;
  double low_freq_factor = 1, high_freq_factor = 4;        // llama3
  std::vector<double> short_factor, long_factor;           // longrope
};

struct RopeFrequencies {
  std::vector<double> inv_freq;   // [rotary_dim / 2], radians per token
  double attention_factor = 1;    // multiplies cos and sin
};

// The frequencies that the named method gives; seq_len is the length that dynamic and longrope look at (absent: the
// model as loaded). Follows upstream also for values that flags refuse (factor < 1, ...), as model files need.
RopeFrequencies rope_frequencies(const RopeScaling& scaling, std::optional<std::int64_t> seq_len = std::nullopt);

}  // namespace poslab
