// Positions on several axes as a user gives them: the form, its sections, and a text with images and videos. Shared by
// the experiments that rotate by such positions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/rope_params.h"
#include "poslab/core/fields.h"
#include "poslab/rope/multi_axis.h"

namespace poslab {

struct AxesParams {
  std::optional<MultiAxis> multi_axis;
  std::optional<std::vector<std::int64_t>> mrope_section;
  std::optional<double> mixed_angle;
  std::optional<std::vector<std::string>> segments;
  std::optional<PositionRule> position_rule;
  std::optional<double> frame_step, visual_step;
  std::optional<std::int64_t> spatial_merge_size;

  static void fields(auto& self, auto&& field) {
    begin_group(field, "positions on several axes");
    field("multi_axis", self.multi_axis,
          "which pairs read time, height and width, and how fast they rotate; absent: one axis");
    field(
        "mrope_section", self.mrope_section,
        "mrope forms: pairs for each axis, in sum rotary_dim / 2; absent: the model's, else for 64 pairs those of the "
        "form's best known model",
        "pairs");
    field("mixed_angle", self.mixed_angle, "mixed_vit: direction of the first half of the pairs; absent: 0", "radians");
    field("segments", self.segments,
          "a text with images and videos, sizes in tokens, joined by commas: text:4, image:ROWSxCOLUMNS, "
          "video:FRAMESxROWSxCOLUMNS");
    field("position_rule", self.position_rule,
          "how tokens get their positions; absent: the form's, max_plus_one for text models");
    field("frame_step", self.frame_step, "from frame to frame, rounded down; absent: 1", "positions");
    field("visual_step", self.visual_step, "v2pe: from one token of an image to the next; absent: 0.25", "positions");
    field("spatial_merge_size", self.spatial_merge_size,
          "patches: their order is that of blocks of this side (Qwen2-VL's tower: 2); absent: 1", "patches");
    begin_group(field, "");
  }
};

struct ResolvedAxes {
  MultiAxisSettings settings;
  MultiAxisRope rope = {};
  RopeLayout layout = RopeLayout::half;
  double attention_factor = 1;
  std::vector<Segment> segments = {};  // empty where none are given
  PositionSettings position_settings = {};
};

// Throws std::invalid_argument "[multi_axis] ..." where a parameter of this group is given without multi_axis.
void refuse_axes_without_form(const AxesParams& params);

// params.multi_axis must be there. The mrope forms rotate by the frequencies of `rope`, scalings included; the others
// by their own, at the flag's rope_theta or their usual one. Throws std::invalid_argument as multi_axis_rope does, and
// for a model or a scaling with a form of a vision tower.
ResolvedAxes resolve_axes(const AxesParams& params, const RopeParams& rope_params, const ResolvedRope& rope);

// "t, h, w".
std::string axis_names(const MultiAxisForm& form);

}  // namespace poslab
