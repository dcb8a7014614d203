// The list of RoPE's scalings, in the order that help and documents show. A new one needs its file under rope/scalings/
// and two lines here.
#pragma once

#include "poslab/rope/scaling.h"

namespace poslab {

extern const Scaling linear_scaling, ntk_scaling, ntk_by_parts_scaling, dynamic_scaling, yarn_scaling, longrope_scaling,
    llama3_scaling, proportional_scaling, hope_scaling, resonance_scaling;

inline constexpr const Scaling* all_scalings[] = {
    &default_scaling,  &linear_scaling, &ntk_scaling,          &ntk_by_parts_scaling, &dynamic_scaling,  &yarn_scaling,
    &longrope_scaling, &llama3_scaling, &proportional_scaling, &hope_scaling,         &resonance_scaling};

}  // namespace poslab
