#include "poslab/rope/multi_axis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace poslab {
namespace {

constexpr std::int64_t t = 0, h = 1, w = 2;  // axes of text models
constexpr std::int64_t row = 0, column = 1;  // axes of vision towers

enum class Deal { blocks, alternate, space_first, halves, halves_columns_first, both };

struct Entry {
  MultiAxisForm form;
  Deal deal;
};

const std::array<Entry, 8>& entries() {
  // long: the list itself, a row for each form
  const std::vector<std::string_view> time_and_space = {"t", "h", "w"}, space = {"h", "w"};
  static const std::array<Entry, 8> list = {{
      {{.word = "mrope",
        .sentence = "M-RoPE: blocks of pairs read time, height and width; frequencies run on from block to block",
        .source = "Qwen2-VL (arXiv:2409.12191, section 2.1); transformers 5.24, run; ggml's MROPE",
        .used_by = "Qwen2-VL, Qwen2.5-VL, GLM-4.1V (pairs interleaved)",
        .axes = time_and_space,
        .section_axes = {t, h, w},
        .usual_theta = 1e6,
        .usual_layout = RopeLayout::half,
        .usual_rule = PositionRule::max_plus_one,
        .usual_sections = {16, 24, 24}},
       Deal::blocks},
      {{.word = "mrope_alternate",
        .sentence =
            "M-RoPE whose sections alternate: pairs read time, height, width, time, ...; what is left reads time",
        .source = "Qwen3-VL (arXiv:2511.21631); transformers 5.24, run",
        .used_by = "Qwen3-VL, Qwen3.5, Qwen3-Omni (ggml's IMROPE gives what is left to its fourth axis)",
        .axes = time_and_space,
        .section_axes = {t, h, w},
        .usual_theta = 5e6,
        .usual_layout = RopeLayout::half,
        .usual_rule = PositionRule::max_plus_one,
        .usual_sections = {24, 20, 20}},
       Deal::alternate},
      {{.word = "mrope_space_first",
        .sentence = "height and width alternate over the fast pairs, time has the slow ones",
        .source = "Ernie 4.5 VL; transformers 5.24, run",
        .used_by = "Ernie 4.5 VL (pairs interleaved)",
        .axes = time_and_space,
        .section_axes = {h, w, t},
        .usual_theta = 5e5,
        .usual_layout = RopeLayout::interleaved,
        .usual_rule = PositionRule::max_plus_one,
        .usual_sections = {22, 22, 20}},
       Deal::space_first},
      {{.word = "vision_axial",
        .sentence =
            "half of the pairs read the row, half the column; the index of the frequencies begins anew for each",
        .source = "Qwen2-VL's vision tower; transformers 5.24, run; ggml's VISION",
        .used_by = "the vision towers of Qwen2-VL, Qwen2.5-VL, Qwen3-VL, GLM-4.1V, Ernie 4.5 VL",
        .axes = space,
        .section_axes = {},
        .usual_theta = 1e4,
        .usual_layout = RopeLayout::half,
        .usual_rule = PositionRule::patches},
       Deal::halves},
      {{.word = "pixtral",
        .sentence = "rows take the even frequencies of ordinary RoPE, columns the odd ones",
        .source = "Pixtral (arXiv:2410.07073); transformers 5.24, run",
        .used_by = "Pixtral, Mistral 3's vision tower",
        .axes = space,
        .section_axes = {},
        .usual_theta = 1e4,
        .usual_layout = RopeLayout::half,
        .usual_rule = PositionRule::patches},
       Deal::halves},
      {{.word = "dinov3",
        .sentence = "patch centres in [-1, 1] on both axes, with periods from 1 to nearly rope_theta",
        .source = "DINOv3 (arXiv:2508.10104); transformers 5.24, run",
        .used_by = "DINOv3",
        .axes = space,
        .section_axes = {},
        .usual_theta = 100,
        .usual_layout = RopeLayout::half,
        .usual_rule = PositionRule::patch_centres},
       Deal::halves},
      {{.word = "axial_vit",
        .sentence = "RoPE-Axial: half of the pairs read the column, half the row",
        .source = "RoPE for ViT (Heo et al. 2024, arXiv:2403.13298, section 3.2) and its authors' code",
        .used_by = "RoPE-ViT",
        .axes = space,
        .section_axes = {},
        .usual_theta = 100,
        .usual_layout = RopeLayout::interleaved,
        .usual_rule = PositionRule::patches},
       Deal::halves_columns_first},
      {{.word = "mixed_vit",
        .sentence = "RoPE-Mixed: every pair reads row and column in a learned direction; here as before training",
        .source = "RoPE for ViT (Heo et al. 2024, arXiv:2403.13298, section 3.2) and its authors' code",
        .used_by = "RoPE-ViT",
        .axes = space,
        .section_axes = {},
        .usual_theta = 10,
        .usual_layout = RopeLayout::interleaved,
        .usual_rule = PositionRule::patches},
       Deal::both},
  }};
  return list;
}

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw std::invalid_argument("[multi_axis] " + fmt::format(text, std::forward<Args>(args)...));
}

Deal deal_of(MultiAxis form) {
  for (const Entry& entry : entries()) {
    if (entry.form.word == form.word()) return entry.deal;
  }
  throw std::logic_error("[multi_axis] a form that is not on the list");
}

std::int64_t alternating_axis(std::int64_t pair, std::span<const std::int64_t> sections) {
  const std::int64_t axis = pair % 3;
  return axis != t && pair < 3 * sections[static_cast<std::size_t>(axis)] ? axis : t;
}

// The frequencies of one axis of a vision tower: rope_theta^(-4k / rotary_dim), or Pixtral's share of RoPE's own.
double tower_frequency(const MultiAxisSettings& s, std::int64_t pair) {
  const std::int64_t half = s.rotary_dim / 4;
  const bool second = pair >= half;
  const std::int64_t k = second ? pair - half : pair;
  const bool pixtral = s.form.word() == "pixtral";
  const auto exponent = static_cast<double>(pixtral ? 2 * (2 * k + (second ? 1 : 0)) : 4 * k);
  const double frequency = std::pow(s.rope_theta, -exponent / static_cast<double>(s.rotary_dim));
  return s.form->usual_rule == PositionRule::patch_centres ? 2 * std::numbers::pi * frequency : frequency;
}

}  // namespace

std::span<const MultiAxisForm> MultiAxis::all() {
  static const std::vector<MultiAxisForm> forms = [] {
    std::vector<MultiAxisForm> found;
    for (const Entry& entry : entries()) found.push_back(entry.form);
    return found;
  }();
  return forms;
}

std::vector<std::string_view> MultiAxis::words() {
  std::vector<std::string_view> found;
  for (const MultiAxisForm& form : all()) found.push_back(form.word);
  return found;
}

MultiAxis MultiAxis::from_word(std::string_view word) {
  for (const MultiAxisForm& form : all()) {
    if (form.word == word) return MultiAxis(form);
  }
  refuse("'{}' is no form of multi-axis RoPE; there are {}.", word, fmt::join(words(), ", "));
}

std::vector<std::int64_t> axis_of_pairs_unchecked(MultiAxis form, std::int64_t n_pairs,
                                                  std::span<const std::int64_t> sections) {
  std::vector<std::int64_t> axes;
  for (std::int64_t i = 0; i < n_pairs; ++i) {
    const bool first_half = i < n_pairs / 2;
    switch (deal_of(form)) {
      case Deal::blocks: {
        std::int64_t axis = 0;
        const auto last = static_cast<std::int64_t>(sections.size()) - 1;
        for (std::int64_t end = sections[0]; i >= end && axis < last; end += sections[static_cast<std::size_t>(axis)])
          ++axis;
        axes.push_back(axis);
        break;
      }
      case Deal::alternate:
        axes.push_back(alternating_axis(i, sections));
        break;
      case Deal::space_first:
        axes.push_back(i >= sections[0] + sections[1] ? t : i % 2 == 0 ? h : w);
        break;
      case Deal::halves:
        axes.push_back(first_half ? row : column);
        break;
      case Deal::halves_columns_first:
        axes.push_back(first_half ? column : row);
        break;
      case Deal::both:
        axes.push_back(-1);
        break;
    }
  }
  return axes;
}

std::string sections_problem(MultiAxis form, std::int64_t n_pairs, std::span<const std::int64_t> sections) {
  const std::size_t needed = form->section_axes.size();
  if (needed == 0) {
    return sections.empty() ? "" : fmt::format("{} has no sections, but {} are given.", form.word(), sections.size());
  }
  const bool blocks = deal_of(form) == Deal::blocks;
  if (sections.size() != needed && !(blocks && sections.size() == needed + 1)) {
    return fmt::format("{} needs {} sections{}, but {} are given.", form.word(), needed,
                       blocks ? " (or a fourth, as ggml has)" : "", sections.size());
  }
  std::int64_t sum = 0;
  for (const std::int64_t section : sections) {
    if (section < 0 || section > n_pairs) {
      return fmt::format("sections count pairs, 0 to rotary_dim / 2 = {}, but one is {}.", n_pairs, section);
    }
    sum += section;
  }
  if (sum != n_pairs) {
    return fmt::format("sections {} sum to {}, but rotary_dim / 2 is {}.", fmt::join(sections, " + "), sum, n_pairs);
  }
  const std::vector<std::int64_t> axes = axis_of_pairs_unchecked(form, n_pairs, sections);
  for (std::size_t s = 0; s < needed; ++s) {
    const std::int64_t axis = blocks ? static_cast<std::int64_t>(s) : form->section_axes[s];
    const auto got = std::count(axes.begin(), axes.end(), axis);
    if (got != sections[s]) {
      return fmt::format("sections {} cannot alternate: axis {} would get {} pairs instead of {}.",
                         fmt::join(sections, ", "), form->axes[static_cast<std::size_t>(axis)], got, sections[s]);
    }
  }
  return "";
}

std::vector<std::int64_t> axis_of_pairs(MultiAxis form, std::int64_t n_pairs, std::span<const std::int64_t> sections) {
  if (n_pairs < 1) refuse("rotary_dim / 2 must be at least 1 but is {}.", n_pairs);
  if (form->section_axes.empty() && n_pairs % 2 != 0) {
    refuse("{} splits the pairs in two, but rotary_dim / 2 is {}.", form.word(), n_pairs);
  }
  if (const std::string problem = sections_problem(form, n_pairs, sections); !problem.empty()) refuse("{}", problem);
  return axis_of_pairs_unchecked(form, n_pairs, sections);
}

MultiAxisRope multi_axis_rope(const MultiAxisSettings& s) {
  if (s.rotary_dim < 2 || s.rotary_dim % 2 != 0) {
    refuse("rotary_dim must be even and at least 2 but got {}.", s.rotary_dim);
  }
  if (!(s.rope_theta > 0) || !std::isfinite(s.rope_theta)) {
    refuse("rope_theta must be above 0 but got {}.", s.rope_theta);
  }
  const bool ordinary = !s.form->section_axes.empty();
  MultiAxisRope rope;
  rope.n_pairs = s.rotary_dim / 2;
  rope.n_axes = std::max(s.form.n_axes(), static_cast<std::int64_t>(s.sections.size()));
  rope.pair_axis = axis_of_pairs(s.form, rope.n_pairs, s.sections);
  if (!s.scaled_inv_freq.empty() && !ordinary) {
    refuse("{} has frequencies of its own, which no scaling of ordinary RoPE replaces.", s.form.word());
  }
  if (!s.scaled_inv_freq.empty() && s.scaled_inv_freq.size() != static_cast<std::size_t>(rope.n_pairs)) {
    refuse("{} frequencies are given for {} pairs.", s.scaled_inv_freq.size(), rope.n_pairs);
  }
  rope.inv_freq.resize(static_cast<std::size_t>(rope.n_axes * rope.n_pairs));
  const std::vector<double> own =
      s.scaled_inv_freq.empty() ? rope_inv_freq(s.rotary_dim, s.rope_theta) : s.scaled_inv_freq;
  const auto put = [&](std::int64_t axis, std::int64_t pair, double frequency) {
    rope.inv_freq[static_cast<std::size_t>(axis * rope.n_pairs + pair)] = frequency;
  };
  for (std::int64_t i = 0; i < rope.n_pairs; ++i) {
    const std::int64_t axis = rope.pair_axis[static_cast<std::size_t>(i)];
    if (axis >= 0) {
      put(axis, i, ordinary ? own[static_cast<std::size_t>(i)] : tower_frequency(s, i));
      continue;
    }
    const double magnitude = tower_frequency(s, i), x = std::cos(s.mixed_angle), y = std::sin(s.mixed_angle);
    const bool twin = i >= rope.n_pairs / 2;  // a right angle further
    put(column, i, magnitude * (twin ? -y : x));
    put(row, i, magnitude * (twin ? x : y));
  }
  return rope;
}

std::vector<double> multi_axis_angles(const MultiAxisRope& rope, const AxisPositions& positions) {
  if (positions.n_axes != rope.n_axes) {
    refuse("positions have {} axes, but the rotation reads {}.", positions.n_axes, rope.n_axes);
  }
  std::vector<double> angles(static_cast<std::size_t>(positions.seq_len * rope.n_pairs));
  std::size_t at = 0;
  for (std::int64_t token = 0; token < positions.seq_len; ++token) {
    for (std::int64_t i = 0; i < rope.n_pairs; ++i, ++at) {
      const std::int64_t axis = rope.pair_axis[static_cast<std::size_t>(i)];
      for (std::int64_t a = axis < 0 ? 0 : axis; a < (axis < 0 ? rope.n_axes : axis + 1); ++a) {
        angles[at] += positions.at(a, token) * rope.inv_freq[static_cast<std::size_t>(a * rope.n_pairs + i)];
      }
    }
  }
  return angles;
}

void apply_multi_axis_rope(std::span<const double> x, std::span<double> out, std::int64_t n_heads,
                           std::int64_t head_dim, const AxisPositions& positions, const MultiAxisRope& rope,
                           RopeLayout layout, double attention_factor) {
  const std::vector<double> angles = multi_axis_angles(rope, positions);
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(head_dim, 0));
  const auto tokens = static_cast<std::size_t>(positions.seq_len), heads = static_cast<std::size_t>(n_heads);
  if (n_heads < 0 || x.size() != heads * tokens * width || out.size() != x.size()) {
    refuse("n_heads {} x seq_len {} x head_dim {} needs {} values but x has {} and out {}.", n_heads, positions.seq_len,
           head_dim, heads * tokens * width, x.size(), out.size());
  }
  const double once[] = {1.0};
  for (std::size_t r = 0; r < heads * tokens; ++r) {
    const auto pairs = static_cast<std::size_t>(rope.n_pairs);
    apply_rope<double>(x.subspan(r * width, width), out.subspan(r * width, width), 1, head_dim, once,
                       std::span(angles).subspan(r % tokens * pairs, pairs), layout, attention_factor);
  }
}

}  // namespace poslab
