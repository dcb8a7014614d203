// How a checkpoint's RoPE is scaled for an evaluation: flags over what its config says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/evaluated_model.h"
#include "experiments/rope_params.h"
#include "poslab/models/transformer_config.h"

namespace poslab {

// The help of RopeParams where the model is a checkpoint under evaluation.
inline constexpr RopeHelp evaluation_rope_help{
    .model = evaluated_model_help,
    .rope_type = "how the frequencies are scaled for this evaluation; absent: the model's",
    .head_dim = "channels of one attention head, which the weights fix; absent: the model's"};

struct ModelRope {
  std::optional<RopeFrequencies> frequencies;  // absent: the model's own, or it turns no pairs
  std::optional<RopeType> rope_type;           // in effect; absent: it turns no pairs
  std::optional<double> factor;
  std::vector<std::string> warnings;
};

// The flags, with what the model's config says where they are absent; params.model is not read. Throws
// std::invalid_argument "[rope] ..." for a width that is not the model's.
RopeParams rope_over_model(RopeParams params, const TransformerConfig& config);

// For texts of `length` tokens; params.model is not read. Throws std::invalid_argument as resolve_rope does, and
// "[rope] ..." for a width that is not the model's and for scalings of a model that turns no pairs.
ModelRope model_rope(const RopeParams& params, const TransformerConfig& config, std::int64_t length);

// For Experiment::excluded: why a sweep over all rope types leaves these parameters out, or empty.
std::string model_rope_left_out(const RopeParams& params, const TransformerConfig& config, std::int64_t length);

}  // namespace poslab
