#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "experiments/axes_params.h"
#include "experiments/experiment.h"
#include "experiments/rope_params.h"
#include "poslab/rope/rope.h"

namespace poslab {
namespace {

constexpr RopeHelp help{.head_dim = "channels of the vector; absent: the model's, else the vector's length"};

struct Params {
  std::vector<double> vector = {2, 1};
  std::optional<double> angle;
  std::optional<double> position;
  std::optional<RopeLayout> layout;
  RopeParams rope;
  std::optional<std::int64_t> seq_len;
  AxesParams axes;
  std::optional<std::vector<double>> axis_positions;
  std::optional<std::int64_t> token;

  static void fields(auto& self, auto&& field) {
    field("vector", self.vector, "the values to rotate");
    field("angle", self.angle, "rotate one pair by this; absent, and no position: a quarter of a full rotation, pi/2",
          "radians");
    field("position", self.position, "rotate every pair by position * inv_freq instead; absent: use angle", "tokens");
    field("layout", self.layout,
          "which channels form pair i: (2i, 2i+1) or (i, i + rotary_dim/2); absent: the model's, else the form's, else "
          "interleaved");
    RopeParams::fields(self.rope, field, help);
    field("seq_len", self.seq_len, "length that length-dependent scalings look at; absent: the model as loaded",
          "tokens");
    AxesParams::fields(self.axes, field);
    begin_group(field, "positions on several axes");
    field("axis_positions", self.axis_positions, "the vector's position on each axis: t,h,w of mrope, h,w of towers");
    field("token", self.token, "or: the token of `segments` whose positions these are, from 0", "tokens");
    begin_group(field, "");
  }
};

struct Summary {
  std::vector<double> output;
  double norm_before = 0, norm_after = 0;
  std::vector<double> angles;
  std::int64_t resolved_rotary_dim = 0;
  double attention_factor = 1;
  std::optional<std::vector<double>> resolved_axis_positions;
  std::optional<std::vector<std::int64_t>> resolved_mrope_section;
  std::vector<std::string> warnings;

  static void fields(auto& self, auto&& field) {
    field("output", self.output, "the vector after the rotation");
    field("norm_before", self.norm_before, "its length before");
    field("norm_after", self.norm_after, "its length after");
    field("angles", self.angles, "by how much each pair is rotated", "radians");
    field("resolved_rotary_dim", self.resolved_rotary_dim, "channels that were rotated", "channels");
    field("attention_factor", self.attention_factor, "what the scaling multiplied the rotated channels by");
    field("resolved_axis_positions", self.resolved_axis_positions, "the position on each axis of multi_axis");
    field("resolved_mrope_section", self.resolved_mrope_section, "pairs for each axis", "pairs");
    field("warnings", self.warnings, "what to know about these parameters");
  }
};

struct Row {
  std::int64_t pair = 0, first_channel = 0, second_channel = 0;
  double pair_angle = 0, first_before = 0, second_before = 0, first_after = 0, second_after = 0;
  std::optional<std::string> axis;

  static void fields(auto& self, auto&& field) {
    field("pair", self.pair, "index i of the pair");
    field("first_channel", self.first_channel, "channel of its first member");
    field("second_channel", self.second_channel, "channel of its second member");
    field("pair_angle", self.pair_angle, "by how much it is rotated", "radians");
    field("first_before", self.first_before, "first member before the rotation");
    field("second_before", self.second_before, "second member before the rotation");
    field("first_after", self.first_after, "first member after the rotation");
    field("second_after", self.second_after, "second member after the rotation");
    field("axis", self.axis, "which axis of multi_axis it reads: t time, h row, w column, e a fourth");
  }
};

// hypot neither overflows nor loses the last digit of a plain 2-vector.
double norm(const std::vector<double>& values) {
  double length = 0;
  for (double v : values) length = std::hypot(length, v);
  return length;
}

std::string short_list(const std::vector<double>& values) {
  constexpr std::size_t shown = 8;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < std::min(values.size(), shown); ++i) words.push_back(fmt::format("{:.4g}", values[i]));
  return fmt::format("({}{})", fmt::join(words, ", "), values.size() > shown ? ", ..." : "");
}

// What the parameters make of every pair: its angle, and the factor beside it.
struct Rotation {
  std::vector<double> angles = {};  // [rotary_dim / 2] radians
  double attention_factor = 1;
  std::optional<RopeLayout> layout = std::nullopt;  // the usual one of multi_axis
  std::vector<std::string> pair_axes = {};          // [rotary_dim / 2], of multi_axis
  std::vector<double> axis_positions = {};          // of multi_axis
  std::vector<std::int64_t> mrope_section = {};
};

// The positions of one token, given or counted in a text with images.
AxisPositions token_positions(const Params& p, const ResolvedAxes& axes) {
  const MultiAxisForm& form = *p.axes.multi_axis->operator->();
  if (p.axis_positions.has_value() == p.axes.segments.has_value() || (p.token && !p.axes.segments)) {
    throw std::invalid_argument(fmt::format(
        "[rotate] multi_axis {} needs axis_positions, one for each of {}, or segments with a token of theirs.",
        form.word, axis_names(form)));
  }
  if (p.axis_positions) {
    if (static_cast<std::int64_t>(p.axis_positions->size()) != axes.rope.n_axes) {
      throw std::invalid_argument(fmt::format("[rotate] axis_positions has {} values, but {} has the {} axes {}.",
                                              p.axis_positions->size(), form.word, axes.rope.n_axes, axis_names(form)));
    }
    return one_token(*p.axis_positions);
  }
  const AxisPositions all = axis_positions(axes.segments, axes.position_settings);
  const std::int64_t token = p.token.value_or(all.seq_len - 1);
  if (token < 0 || token >= all.seq_len) {
    throw std::invalid_argument(
        fmt::format("[rotate] token must be 0 to {}, the last of segments, but is {}.", all.seq_len - 1, token));
  }
  std::vector<double> here;
  for (std::int64_t axis = 0; axis < all.n_axes; ++axis) here.push_back(all.at(axis, token));
  return one_token(here);
}

Rotation resolve_axes_rotation(const Params& p, const ResolvedRope& rope) {
  if (p.angle || p.position) {
    throw std::invalid_argument("[rotate] angle and position rotate by one axis; with multi_axis give axis_positions.");
  }
  const ResolvedAxes axes = resolve_axes(p.axes, p.rope, rope);
  const AxisPositions here = token_positions(p, axes);
  Rotation rotation{.angles = multi_axis_angles(axes.rope, here),
                    .attention_factor = axes.attention_factor,
                    .layout = axes.layout,
                    .axis_positions = here.values,
                    .mrope_section = axes.settings.sections};
  const MultiAxisForm& form = *p.axes.multi_axis->operator->();
  for (const std::int64_t axis : axes.rope.pair_axis) {
    rotation.pair_axes.push_back(axis < 0 ? axis_names(form)
                                 : axis < static_cast<std::int64_t>(form.axes.size())
                                     ? std::string(form.axes[static_cast<std::size_t>(axis)])
                                     : "e");
  }
  return rotation;
}

Rotation resolve_rotation(const Params& p, const ResolvedRope& rope) {
  if (p.axes.multi_axis) return resolve_axes_rotation(p, rope);
  refuse_axes_without_form(p.axes);
  if (p.axis_positions || p.token) {
    throw std::invalid_argument("[rotate] axis_positions and token need multi_axis, the form that reads them.");
  }
  if (p.angle && p.position) {
    throw std::invalid_argument("[rotate] angle and position exclude each other; give one of them.");
  }
  if (p.position) {
    if (!(*p.position >= 0) || !std::isfinite(*p.position)) {
      throw std::invalid_argument(fmt::format("[rotate] position must be 0 or more but got {}.", *p.position));
    }
    RopeFrequencies frequencies = resolved_frequencies(rope);
    for (double& w : frequencies.inv_freq) w *= *p.position;
    return {.angles = std::move(frequencies.inv_freq), .attention_factor = frequencies.attention_factor};
  }
  if (rope.scaling.rotary_dim != 2) {
    throw std::invalid_argument(
        fmt::format("[rotate] an angle rotates one pair, but rotary_dim {} makes {}; give a position instead.",
                    rope.scaling.rotary_dim, rope.scaling.rotary_dim / 2));
  }
  return {.angles = {p.angle.value_or(std::numbers::pi / 2)}};
}

// "3 pairs read t at 5, 5 h at 7."
std::string axes_text(const Params& p, const Rotation& rotation) {
  if (!p.axes.multi_axis) return "";
  const MultiAxisForm& form = *p.axes.multi_axis->operator->();
  std::vector<std::string> places, pairs;
  for (std::size_t a = 0; a < rotation.axis_positions.size(); ++a) {
    const std::string name(a < form.axes.size() ? form.axes[a] : "e");
    places.push_back(fmt::format("{} = {:.6g}", name, rotation.axis_positions[a]));
    const auto count = std::count(rotation.pair_axes.begin(), rotation.pair_axes.end(), name);
    if (count > 0) pairs.push_back(fmt::format("{} read {}", count, name));
  }
  return fmt::format(
      "{}: the vector stands at {}{}.\n", form.word, fmt::join(places, ", "),
      pairs.empty() ? "; every pair reads all axes" : fmt::format("; of its pairs {}", fmt::join(pairs, ", ")));
}

std::string conclude(const Params& p, const Summary& s, const std::string& axes) {
  std::string text = fmt::format("{} becomes {}.\n{}", short_list(p.vector), short_list(s.output), axes);
  if (s.angles.size() == 1) {
    text += fmt::format("The pair was rotated by {:.4g} radians ({:.4g} degrees); ", s.angles[0],
                        s.angles[0] * 180 / std::numbers::pi);
  } else {
    text += fmt::format(
        "Each of the {} pairs was rotated at its own speed, from {:.4g} radians (the first) to {:.4g} (the "
        "last); ",
        s.angles.size(), s.angles.front(), s.angles.back());
  }
  text += fmt::format("the length is {:.4g} before and {:.4g} after.\n", s.norm_before, s.norm_after);
  if (s.attention_factor != 1) {
    return text + fmt::format(
                      "The rotation alone keeps the length; the scaling's attention factor multiplies what is rotated "
                      "by {:.6g}.",
                      s.attention_factor);
  }
  return text + "A rotation tells the place by the direction alone: nothing is added to the values, and none grows.";
}

TypedReport<Summary, Row> run(const Params& p, const RunContext&) {
  const auto length = static_cast<std::int64_t>(p.vector.size());
  if (length < 2) {
    throw std::invalid_argument(fmt::format("[rotate] vector needs a pair of values at least but has {}.", length));
  }
  RopeFallbacks fallbacks;
  fallbacks.head_dim = length;
  const ResolvedRope rope = resolve_rope(p.rope, fallbacks, p.seq_len);
  if (rope.scaling.head_dim != length) {
    throw std::invalid_argument(
        fmt::format("[rotate] vector has {} values but head_dim is {}.", length, rope.scaling.head_dim));
  }
  TypedReport<Summary, Row> report;
  Summary& s = report.summary;
  Rotation rotation = resolve_rotation(p, rope);
  const RopeLayout layout = p.layout.value_or(rotation.layout.value_or(rope.layout.value_or(RopeLayout::interleaved)));
  const auto dim = 2 * static_cast<std::int64_t>(rotation.angles.size());
  s.resolved_rotary_dim = dim;
  s.angles = std::move(rotation.angles);
  s.attention_factor = rotation.attention_factor;
  s.warnings = rope.warnings;
  if (p.axes.multi_axis) {
    s.resolved_axis_positions = rotation.axis_positions;
    if (!rotation.mrope_section.empty()) s.resolved_mrope_section = rotation.mrope_section;
  }
  s.output.resize(p.vector.size());
  const double once[] = {1.0};
  apply_rope<double>(p.vector, s.output, 1, length, once, s.angles, layout, s.attention_factor);
  s.norm_before = norm(p.vector);
  s.norm_after = norm(s.output);

  for (std::int64_t i = 0; i < dim / 2; ++i) {
    const auto [a, b] = rope_pair_channels(layout, dim, i);
    report.rows.push_back({i, a, b, s.angles[i], p.vector[a], p.vector[b], s.output[a], s.output[b], {}});
    if (p.axes.multi_axis) report.rows.back().axis = rotation.pair_axes[static_cast<std::size_t>(i)];
  }
  report.conclusion = conclude(p, s, axes_text(p, rotation));
  if (dim == 2) {
    const auto [a, b] = rope_pair_channels(layout, dim, 0);
    Picture arrows;
    arrows.title = "the pair as an arrow from the origin";
    arrows.x_label = "first member";
    arrows.y_label = "second member";
    arrows.series = {{"before", {0, p.vector[a]}, {0, p.vector[b]}}, {"after", {0, s.output[a]}, {0, s.output[b]}}};
    report.pictures.push_back(std::move(arrows));
  }
  return report;
}

Experiment describe_rotate() {
  return describe<Params, Summary, Row>("rotate", "What does a rotation do to a vector, and what does it keep?",
                                        "poslab rotate --vector 1,2,3,4 --position 1", run);
}

const Registrar registrar("rotate", describe_rotate);

}  // namespace
}  // namespace poslab
