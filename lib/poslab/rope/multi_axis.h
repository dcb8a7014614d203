// Rotary embedding with positions on several axes: time, height and width of an image or a video beside the text.
//
// A token has one position on each axis, and pair i of its queries and keys is rotated by
//   angle_i = sum over the axes a of inv_freq[a][i] * position[a],
// where in every form but mixed_vit a pair reads one axis alone. A form says which, and at which frequency.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/rope/axis_positions.h"
#include "poslab/rope/rope.h"

namespace poslab {

struct MultiAxisForm {
  std::string_view word, sentence, source, used_by;
  std::vector<std::string_view> axes;             // what the positions are, in their order
  std::vector<std::int64_t> section_axes;         // which axis each section belongs to; empty: the form has no sections
  double usual_theta;                             // what rope_theta is where a model's config is silent
  RopeLayout usual_layout;                        // of its best known user
  PositionRule usual_rule;                        // of the positions
  std::vector<std::int64_t> usual_sections = {};  // of its best known user, which has head_dim 128
};

// One entry of the list. `list`, words() and help read it in this order.
class MultiAxis {
 public:
  static std::span<const MultiAxisForm> all();
  static std::vector<std::string_view> words();
  // Throws std::invalid_argument "[multi_axis] ..." for a word that is not on the list.
  static MultiAxis from_word(std::string_view word);
  std::string_view word() const { return form_->word; }
  const MultiAxisForm* operator->() const { return form_; }
  std::int64_t n_axes() const { return static_cast<std::int64_t>(form_->axes.size()); }
  bool operator==(const MultiAxis&) const = default;

 private:
  explicit MultiAxis(const MultiAxisForm& form) : form_(&form) {}
  const MultiAxisForm* form_;
};

// What rotates, resolved.
struct MultiAxisRope {
  std::int64_t n_axes = 0, n_pairs = 0;
  std::vector<double> inv_freq;  // [n_axes, n_pairs] radians per unit of that axis; 0 where the pair does not read it
  std::vector<std::int64_t> pair_axis;  // [n_pairs] the axis that a pair reads; -1: several
};

// The axis of each pair. Sections are counts of pairs, in the order of form->section_axes.
//
//   mrope              blocks: the first sections[0] pairs read the first axis, and so on (three or four axes)
//   mrope_alternate    pair i reads h where i mod 3 = 1 and i < 3 * sections[1], w where i mod 3 = 2 and
//                      i < 3 * sections[2], and t elsewhere
//   mrope_space_first  h and w take turns over the first sections[0] + sections[1] pairs, t has the others
//   axial_vit          the first half of the pairs reads w, the second half h
//   mixed_vit          every pair reads both: -1
//   others             the first half of the pairs reads h, the second half w
//
// Throws std::invalid_argument "[multi_axis] ..." for sections that are absent where the form needs them or given where
// it has none, that do not sum to n_pairs, are below 0, or cannot alternate as their counts say; for n_pairs that the
// form cannot split.
std::vector<std::int64_t> axis_of_pairs(MultiAxis form, std::int64_t n_pairs, std::span<const std::int64_t> sections);

// Why the sections cannot be dealt out so, or empty; what axis_of_pairs throws.
std::string sections_problem(MultiAxis form, std::int64_t n_pairs, std::span<const std::int64_t> sections);

// The same without a look at whether the sections fit, as engines do that do not check: alternating pairs go by the
// rule alone, blocks end with the pairs. Needs three sections or more in the mrope forms.
std::vector<std::int64_t> axis_of_pairs_unchecked(MultiAxis form, std::int64_t n_pairs,
                                                  std::span<const std::int64_t> sections);

// The frequencies of a form, for a head whose first rotary_dim channels rotate.
//
//   mrope*        those of ordinary RoPE, rope_theta^(-2i / rotary_dim): the index is not reset from section to section
//   vision_axial  rope_theta^(-4k / rotary_dim), k the index within the axis: reset for each axis
//   pixtral       rope_theta^(-2j / rotary_dim): rows (h) have the even j, columns (w) the odd ones
//   dinov3        2 pi rope_theta^(-4k / rotary_dim), positions are coordinates in [-1, 1]
//   axial_vit     as vision_axial; columns (w) come first
//   mixed_vit     as at the start of training: magnitudes m_k = rope_theta^(-4k / rotary_dim), k < rotary_dim / 4, in
//                 the direction mixed_angle (radians) for the first half of the pairs, a right angle further for the
//                 second half. The directions are learned from there, for each head and layer
//
// scaled_inv_freq [rotary_dim / 2], where given, replaces those of ordinary RoPE in the mrope forms. Throws as axis_of_pairs, and std::invalid_argument "[multi_axis] ..." for a rotary_dim that is no multiple of
// 4 (mrope: of 2), a rope_theta not above 0, or scaled frequencies for a form that has its own.
struct MultiAxisSettings {
  MultiAxis form;
  std::int64_t rotary_dim = 128;
  double rope_theta = 10000;
  std::vector<std::int64_t> sections = {};
  double mixed_angle = 0;
  std::vector<double> scaled_inv_freq = {};
};
MultiAxisRope multi_axis_rope(const MultiAxisSettings& settings);

// [positions.seq_len, n_pairs] radians. Throws std::invalid_argument "[multi_axis] ..." where the number of axes
// differs.
std::vector<double> multi_axis_angles(const MultiAxisRope& rope, const AxisPositions& positions);

// apply_rope (rope.h) with positions on several axes.
//   x, out  [n_heads, positions.seq_len, head_dim]; channels from 2 * n_pairs on are copied
void apply_multi_axis_rope(std::span<const double> x, std::span<double> out, std::int64_t n_heads,
                           std::int64_t head_dim, const AxisPositions& positions, const MultiAxisRope& rope,
                           RopeLayout layout, double attention_factor = 1);

}  // namespace poslab
