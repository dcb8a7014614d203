// The numeric profile hf_f32: inverse frequencies as transformers computes them, in 32-bit steps. What poslab computes
// in double and what a deployed model turns by differ by these roundings.
#pragma once

#include <vector>

#include "poslab/rope/scaling.h"

namespace poslab {

// inv_freq of rope_frequencies(scaling, seq_len), each operation rounded to f32 in the order of transformers 5's
// modeling_rope_utils: exponents, powers, quotients and blends in f32; bases, ramp ends and attention factors in
// double.
//
//   returns [pairs]  radians per token; upstream's own values to 2 ulp (powf differs between C libraries)
//
// Of scalings that upstream does not know, the double values are narrowed once. Throws as rope_frequencies does.
std::vector<float> rope_inv_freq_hf_f32(const RopeScaling& scaling, FollowedLength seq_len = std::nullopt);

}  // namespace poslab
