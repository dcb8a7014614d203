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
#include "poslab/rope/scaling.h"

namespace poslab {

// The words of the scalings that have the parameter, followed by ": ", where only some do; else empty.
std::string scalings_with(std::string_view parameter);

// The field list of RoPE's parameters, each absent unless given, and the model that supplies the others.
struct RopeParams : RopeFields<AsGiven> {
  std::optional<FilePath> model;
  std::optional<std::string> layer_type;

  static void fields(auto& self, auto&& field, const RopeHelp& help = {}) {
    field("model", self.model, help.model);
    field("layer_type", self.layer_type, "which of the model's sets (full_attention, ...); absent: its first");
    begin_group(field, "rotation (RoPE) and its scaling");
    RopeFields::each(
        help,
        [&](std::string_view name, std::string_view text, std::string_view unit, auto& value) {
          if constexpr (requires { field.begin_group(""); }) {
            field(name, value, scalings_with(name) + std::string(text), unit);
          } else {
            field(name, value, text, unit);
          }
        },
        self);
    begin_group(field, "");
  }
};

// What stands where neither a flag nor a model says anything.
struct RopeFallbacks {
  RopeType rope_type = {};
  std::int64_t head_dim = 128;
  // Belongs to the experiment's own example: used only where no flag describes another model (head_dim, rotary_dim,
  // partial_rotary_factor, rope_theta), since a length taken for granted would quietly give wrong frequencies.
  std::optional<std::int64_t> original_max_position_embeddings;
};

struct ResolvedRope {
  RopeScaling scaling;
  double trained_theta = 10000;             // the model's base, else the base in effect
  std::string layer_type;                   // the model's set, empty where it has one kind of layer
  std::optional<RopeLayout> layout;         // the model's
  std::vector<std::int64_t> mrope_section;  // the model's, empty where it has none
  double softmax_multiplier = 1;            // of q.k beside 1/sqrt(d), in MLA models
  std::optional<std::int64_t> seq_len;      // what length-dependent scalings look at; absent: the model as loaded
  std::int64_t target_length = 0;           // tokens: seq_len, else what the parameters reach; 0 where nothing says
  std::vector<std::string> warnings;        // one sentence each
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
