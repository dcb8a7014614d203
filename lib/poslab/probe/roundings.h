// The roundings that engines are compared with.
#pragma once

#include <string_view>

namespace poslab {

// A word of numeric_profile, and the mistake that it is; empty: nobody's mistake.
struct Rounding {
  std::string_view profile;
  std::string_view mistake;
};
constexpr Rounding fine_roundings[] = {{"f64", ""},          {"f32_table", ""}, {"f32_angle", ""},
                                       {"f32_inv_freq", ""}, {"hf_f32", ""},    {"ggml_f32", ""}};
constexpr Rounding coarse_roundings[] = {
    {"bf16_table", "tables in bf16"},
    {"bf16_angle", "angles in bf16"},
    {"bf16_angle_only", "angles in bf16"},
    {"bf16_inv_freq", "inv_freq in bf16"},
    {"bf16_inv_freq_only", "inv_freq in bf16"},
    {"bf16_position", "positions in bf16"},
    {"bf16_position_only", "positions in bf16"},
    {"bf16_all", "everything in bf16"},
    {"f16_table", "tables in f16"},
    {"f16_angle", "angles in f16"},
    {"f16_angle_only", "angles in f16"},
    {"f16_inv_freq", "inv_freq in f16"},
    {"f16_inv_freq_only", "inv_freq in f16"},
    {"f16_position", "positions in f16"},
    {"f16_position_only", "positions in f16"},
    {"f16_all", "everything in f16"},
};

}  // namespace poslab
