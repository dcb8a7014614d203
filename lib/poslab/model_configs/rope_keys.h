// The keys under which a config.json says how RoPE is scaled, from the scaling's row (ConfigForm).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "poslab/rope/scaling.h"

namespace poslab {

// What is written: every value, with a known original length even where the scaling does not read it, or only what
// differs from what a reader takes for granted.
enum class RopeKeys { all, needed };

// rope_type, factor, original length, then the scaling's own keys, required ones first. What is absent is left out, and
// so are rope_theta and the share of channels (but where the scaling spreads over the head).
nlohmann::ordered_json rope_keys(const RopeScaling& scaling, RopeKeys which);

}  // namespace poslab
