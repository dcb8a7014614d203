#include "experiments/axes_params.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <utility>

namespace poslab {
namespace {

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw std::invalid_argument("[multi_axis] " + fmt::format(text, std::forward<Args>(args)...));
}

std::vector<std::int64_t> sections_of(const AxesParams& p, const MultiAxisForm& form, const ResolvedRope& rope) {
  const std::int64_t n_pairs = rope.scaling.rotary_dim / 2;
  if (p.mrope_section) return *p.mrope_section;
  if (!rope.mrope_section.empty()) return rope.mrope_section;
  constexpr std::int64_t usual_pairs = 64;
  if (form.usual_sections.empty() || n_pairs == usual_pairs) return form.usual_sections;
  refuse("{} needs mrope_section, pairs for each of {} whose sum is rotary_dim / 2 = {}.", form.word, axis_names(form),
         n_pairs);
}

}  // namespace

std::string axis_names(const MultiAxisForm& form) { return fmt::format("{}", fmt::join(form.axes, ", ")); }

void refuse_axes_without_form(const AxesParams& p) {
  const auto needs = [](bool given, const char* name) {
    if (given) {
      refuse("{} describes positions on several axes; give multi_axis, one of {}.", name,
             fmt::join(MultiAxis::words(), ", "));
    }
  };
  needs(p.mrope_section.has_value(), "mrope_section");
  needs(p.mixed_angle.has_value(), "mixed_angle");
  needs(p.segments.has_value(), "segments");
  needs(p.position_rule.has_value(), "position_rule");
  needs(p.frame_step.has_value(), "frame_step");
  needs(p.visual_step.has_value(), "visual_step");
  needs(p.spatial_merge_size.has_value(), "spatial_merge_size");
}

ResolvedAxes resolve_axes(const AxesParams& p, const RopeParams& rope_params, const ResolvedRope& rope) {
  const MultiAxis form = p.multi_axis.value();
  const bool text_model = !form->section_axes.empty();
  ResolvedAxes r{.settings = {.form = form}};
  r.settings.rotary_dim = rope.scaling.rotary_dim;
  r.settings.sections = sections_of(p, *form.operator->(), rope);
  r.settings.mixed_angle = p.mixed_angle.value_or(0);
  if (p.mixed_angle && form.word() != "mixed_vit") refuse("mixed_angle belongs to mixed_vit, not to {}.", form.word());
  if (text_model) {
    RopeFrequencies frequencies = resolved_frequencies(rope);
    r.settings.rope_theta = rope.scaling.rope_theta;
    r.settings.scaled_inv_freq = std::move(frequencies.inv_freq);
    r.attention_factor = frequencies.attention_factor;
  } else {
    if (rope_params.model || rope.scaling.rope_type.is_scaled()) {
      refuse("{} is the form of a vision tower, whose frequencies neither a text model nor a scaling describes.",
             form.word());
    }
    r.settings.rope_theta = rope_params.rope_theta.value_or(form->usual_theta);
  }
  r.rope = multi_axis_rope(r.settings);
  r.layout = rope.layout.value_or(form->usual_layout);
  if (p.segments) r.segments = parse_segments(*p.segments);
  r.position_settings = {.rule = p.position_rule.value_or(form->usual_rule),
                         .n_axes = r.rope.n_axes,
                         .frame_step = p.frame_step.value_or(1),
                         .visual_step = p.visual_step.value_or(0.25),
                         .merge = p.spatial_merge_size.value_or(1)};
  return r;
}

}  // namespace poslab
