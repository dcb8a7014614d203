// The parameters of one RoPE set as a user gives them: flags over a model file over fallbacks. Shared by every
// experiment that turns pairs.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/rope/rope.h"
#include "poslab/rope/rope_scaling.h"

namespace poslab {

// The helps that name a fallback which differs between experiments.
struct RopeHelp {
  std::string_view model =
      "a config.json or GGUF file, a folder with either, or a preset; supplies what no flag gives; absent: none";
  std::string_view rope_type = "how the frequencies are scaled; absent: the model's, else default";
  std::string_view head_dim = "channels of one attention head; absent: the model's, else 128";
  std::string_view original_max_position_embeddings =
      "length of pre-training; absent: the model's, else max_position_embeddings, else unknown";
  std::string_view factor = "how many times longer; absent: the model's, else max(1, seq_len / original length)";
};

struct RopeParams {
  std::optional<std::string> model, layer_type;
  std::optional<RopeType> rope_type;
  std::optional<double> factor, rope_theta;
  std::optional<std::int64_t> head_dim, rotary_dim;
  std::optional<double> partial_rotary_factor;
  std::optional<std::int64_t> original_max_position_embeddings, max_position_embeddings;
  std::optional<double> attention_factor, beta_fast, beta_slow, mscale, mscale_all_dim;
  std::optional<bool> truncate;
  std::optional<YarnRamp> yarn_ramp;
  std::optional<double> low_freq_factor, high_freq_factor;
  std::optional<std::vector<double>> short_factor, long_factor;

  static void fields(auto& self, auto&& field, const RopeHelp& help = {}) {
    field("model", self.model, help.model);
    field("layer_type", self.layer_type, "which of the model's sets (full_attention, ...); absent: its first");
    field("rope_type", self.rope_type, help.rope_type);
    field("factor", self.factor, help.factor);
    field("rope_theta", self.rope_theta, "base of the frequencies; absent: the model's, else 10000");
    field("head_dim", self.head_dim, help.head_dim, "channels");
    field("rotary_dim", self.rotary_dim,
          "channels that turn, even; absent: the model's, else head_dim * partial_rotary_factor", "channels");
    field("partial_rotary_factor", self.partial_rotary_factor,
          "share of the channels that turn (proportional: of the pairs); absent: the model's, else 1");
    field("original_max_position_embeddings", self.original_max_position_embeddings,
          help.original_max_position_embeddings, "tokens");
    field("max_position_embeddings", self.max_position_embeddings,
          "length the config states, dynamic's trained length; absent: the model's, else the original length",
          "tokens");
    field("attention_factor", self.attention_factor,
          "yarn, longrope: multiplies cos and sin in place of the formula; absent: the model's, else the formula");
    field("beta_fast", self.beta_fast, "yarn: pairs with more turns are kept; absent: the model's, else 32", "turns");
    field("beta_slow", self.beta_slow, "yarn: pairs with fewer turns are stretched; absent: the model's, else 1",
          "turns");
    field("mscale", self.mscale,
          "yarn: with mscale_all_dim gives the attention factor; absent: the model's, else none");
    field("mscale_all_dim", self.mscale_all_dim, "yarn: see mscale; absent: the model's, else none");
    field("truncate", self.truncate, "yarn: round the ends of its ramp to whole pairs; absent: the model's, else yes");
    field("yarn_ramp", self.yarn_ramp,
          "yarn: ramp over the pairs as in every code, or over the turns as in the paper; absent: code");
    field("low_freq_factor", self.low_freq_factor,
          "llama3: pairs with fewer turns are stretched; absent: the model's, else 1", "turns");
    field("high_freq_factor", self.high_freq_factor,
          "llama3: pairs with more turns are kept; absent: the model's, else 4", "turns");
    field("short_factor", self.short_factor,
          "longrope: divisor of each pair up to the original length; absent: the model's, else none");
    field("long_factor", self.long_factor, "longrope: divisor of each pair beyond it; absent: the model's, else none");
  }
};

// What stands where neither a flag nor a model says anything.
struct RopeFallbacks {
  RopeType rope_type = RopeType::default_;
  std::int64_t head_dim = 128;
  // Belongs to the experiment's own example: used only where no flag describes another model (head_dim, rotary_dim,
  // partial_rotary_factor, rope_theta), since a length taken for granted would quietly give wrong frequencies.
  std::optional<std::int64_t> original_max_position_embeddings;
};

struct ResolvedRope {
  RopeScaling scaling;
  double trained_theta = 10000;         // the model's base, else the base in effect
  std::string layer_type;               // the model's set, empty where it has one kind of layer
  std::optional<RopeLayout> layout;     // the model's
  double softmax_multiplier = 1;        // of q.k beside 1/sqrt(d), in MLA models
  std::optional<std::int64_t> seq_len;  // what dynamic and longrope look at; absent: the model as loaded
  std::int64_t target_length = 0;       // tokens: seq_len, else what the parameters reach; 0 where nothing says
  std::vector<std::string> warnings;    // one sentence each
};

// The parameters lack something that this rope_type needs; a sweep over all types leaves it out.
class RopeTypeUnavailable : public std::invalid_argument {
 public:
  explicit RopeTypeUnavailable(const std::string& reason) : invalid_argument("[rope] " + reason), reason_(reason) {}
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

// Flags over the model over the fallbacks. `seq_len` is the target length: an absent factor becomes
// max(1, seq_len / original length), where an absent seq_len is factor * original length, else the model's (or the
// flag's) max_position_embeddings, else 4 * original length.
//
// Flags are strict: throws std::invalid_argument "[rope] ..." for a factor below 1, beta_fast <= beta_slow, lengths
// below 1, an odd or too large rotary_dim and the like, RopeTypeUnavailable for what the type lacks. The same values in
// a model file are followed as transformers follows them, with a warning.
ResolvedRope resolve_rope(const RopeParams& params, const RopeFallbacks& fallbacks,
                          std::optional<std::int64_t> seq_len = std::nullopt);

// rope_frequencies(resolved.scaling, resolved.seq_len).
RopeFrequencies resolved_frequencies(const ResolvedRope& resolved);

// For Experiment::excluded: why a sweep over all rope types leaves these parameters out, or empty.
std::string rope_type_left_out(const RopeParams& params, const RopeFallbacks& fallbacks,
                               std::optional<std::int64_t> seq_len = std::nullopt);

}  // namespace poslab
