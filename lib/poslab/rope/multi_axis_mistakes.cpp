#include "poslab/rope/multi_axis_mistakes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <stdexcept>
#include <utility>

namespace poslab {
namespace {

class Mistakes {
 public:
  explicit Mistakes(const AxesQuestion& question)
      : question_(question), settings_(question.settings), rope_(multi_axis_rope(question.settings)) {
    positions_ = question.positions;
    if (!question.segments.empty()) {
      PositionSettings counted = question.position_settings;
      counted.n_axes = rope_.n_axes;
      positions_ = axis_positions(question.segments, counted);
    }
    meant_ = multi_axis_angles(rope_, positions_);
  }

  std::vector<AxesMistake> all() {
    if (settings_.form->section_axes.empty()) {
      of_towers();
    } else {
      of_sections();
    }
    of_axes();
    if (!question_.segments.empty()) of_grids();
    return std::move(found_);
  }

 private:
  using Place = std::function<double(const Segment&, std::int64_t axis, std::int64_t in_segment, double meant)>;

  void add(std::string name, std::string detail, const MultiAxisRope& rope, const AxisPositions& positions) {
    AxesMistake mistake{std::move(name), std::move(detail), rope, positions};
    const std::vector<double> angles = multi_axis_angles(rope, positions);
    mistake.shows = false;
    for (std::size_t i = 0; i < angles.size() && !mistake.shows; ++i) {
      mistake.shows = std::abs(std::cos(angles[i]) - std::cos(meant_[i])) > 1e-9 ||
                      std::abs(std::sin(angles[i]) - std::sin(meant_[i])) > 1e-9;
    }
    found_.push_back(std::move(mistake));
  }
  void add(std::string name, std::string detail, const MultiAxisRope& rope) {
    add(std::move(name), std::move(detail), rope, positions_);
  }
  void add(std::string name, std::string detail, const AxisPositions& positions) {
    add(std::move(name), std::move(detail), rope_, positions);
  }

  double own(std::int64_t pair) const {
    const std::int64_t axis = rope_.pair_axis[static_cast<std::size_t>(pair)];
    return rope_.inv_freq[static_cast<std::size_t>(axis * rope_.n_pairs + pair)];
  }

  // The pairs read `axes` at frequency(pair, its index among those that read its axis).
  MultiAxisRope dealt(const std::vector<std::int64_t>& axes,
                      const std::function<double(std::int64_t pair, std::int64_t index)>& frequency) const {
    MultiAxisRope rope = rope_;
    rope.pair_axis = axes;
    std::fill(rope.inv_freq.begin(), rope.inv_freq.end(), 0.0);
    std::vector<std::int64_t> index(static_cast<std::size_t>(rope.n_axes), 0);
    for (std::int64_t i = 0; i < rope.n_pairs; ++i) {
      const std::int64_t axis = axes[static_cast<std::size_t>(i)];
      rope.inv_freq[static_cast<std::size_t>(axis * rope.n_pairs + i)] =
          frequency(i, index[static_cast<std::size_t>(axis)]++);
    }
    return rope;
  }
  MultiAxisRope dealt(const std::vector<std::int64_t>& axes) const {
    return dealt(axes, [&](std::int64_t pair, std::int64_t) { return own(pair); });
  }

  void of_sections() {
    const MultiAxis form = settings_.form;
    std::vector<std::int64_t> order = settings_.sections;
    std::sort(order.begin(), order.end());
    do {
      if (order == settings_.sections) continue;
      add("section order", fmt::format("sections {}", fmt::join(order, ", ")),
          dealt(axis_of_pairs_unchecked(form, rope_.n_pairs, order)));
    } while (std::next_permutation(order.begin(), order.end()));

    const auto as = [&](const char* word) {
      return axis_of_pairs_unchecked(MultiAxis::from_word(word), rope_.n_pairs, settings_.sections);
    };
    if (form.word() != "mrope") add("sections in blocks", "as Qwen2-VL has them", dealt(as("mrope")));
    if (form.word() != "mrope_alternate") {
      add("sections alternate", "t, h, w by turns", dealt(as("mrope_alternate")));
    }
    const auto pairs_of = [&](std::int64_t pair) {
      return std::count(rope_.pair_axis.begin(), rope_.pair_axis.end(),
                        rope_.pair_axis[static_cast<std::size_t>(pair)]);
    };
    add("frequency index reset in each section", "each axis begins with the fastest frequency",
        dealt(rope_.pair_axis, [&](std::int64_t, std::int64_t index) { return own(index); }));
    add("frequencies spread anew in each section", "each axis has frequencies from 1 to nearly 1 / rope_theta",
        dealt(rope_.pair_axis, [&](std::int64_t pair, std::int64_t index) {
          return std::pow(settings_.rope_theta, -static_cast<double>(index) / static_cast<double>(pairs_of(pair)));
        }));
    if (form.word() != "mrope_alternate") return;
    MultiAxisRope still = rope_;
    std::int64_t leftover = 0;
    for (std::int64_t i = 0; i < still.n_pairs; ++i) {
      const bool in_turn = i % 3 == 0 && i < 3 * settings_.sections[0];
      if (still.pair_axis[static_cast<std::size_t>(i)] != 0 || in_turn) continue;
      still.inv_freq[static_cast<std::size_t>(i)] = 0;
      ++leftover;
    }
    if (leftover > 0) {
      add("leftover pairs stand still",
          fmt::format("{} pairs beyond the alternation read a fourth axis that is 0, as ggml's IMROPE does", leftover),
          still);
    }
  }

  void of_towers() {
    const std::string_view word = settings_.form.word();
    for (const MultiAxisForm& form : MultiAxis::all()) {
      if (!form.section_axes.empty() || form.word == word || form.word == "mixed_vit" || word == "mixed_vit") continue;
      MultiAxisSettings other = settings_;
      other.form = MultiAxis::from_word(form.word);
      add("frequencies of another form", fmt::format("those of {}, same rope_theta", form.word),
          multi_axis_rope(other));
    }
    if (word == "dinov3") {
      add("factor 2 pi missing", "coordinates take the place of angles / 2 pi",
          dealt(rope_.pair_axis, [&](std::int64_t pair, std::int64_t) { return own(pair) / (2 * std::numbers::pi); }));
    }
    if (word == "mixed_vit") return;
    const double scale = word == "dinov3" ? 2 * std::numbers::pi : 1;
    add("frequencies run on over the axes", "the second axis goes on where the first ends, as in M-RoPE",
        dealt(rope_.pair_axis, [&](std::int64_t pair, std::int64_t) {
          return scale * std::pow(settings_.rope_theta,
                                  -2 * static_cast<double>(pair) / static_cast<double>(2 * rope_.n_pairs));
        }));
  }

  void of_axes() {
    const std::vector<std::string_view>& names = settings_.form->axes;
    for (std::size_t a = 0; a < names.size(); ++a) {
      for (std::size_t b = a + 1; b < names.size(); ++b) {
        AxisPositions swapped = positions_;
        const auto begin = [&](std::size_t axis) {
          return swapped.values.begin() + static_cast<std::int64_t>(axis) * swapped.seq_len;
        };
        std::swap_ranges(begin(a), begin(a) + swapped.seq_len, begin(b));
        add("axes swapped", fmt::format("{} and {}", names[a], names[b]), swapped);
      }
    }
    AxisPositions one = positions_;
    for (std::int64_t axis = 1; axis < one.n_axes; ++axis) {
      std::copy_n(one.values.begin(), one.seq_len, one.values.begin() + axis * one.seq_len);
    }
    add("one axis alone", fmt::format("every pair reads {}", names[0]), one);
    AxisPositions flat = positions_;
    for (std::size_t i = 0; i < flat.values.size(); ++i) {
      flat.values[i] = static_cast<double>(static_cast<std::int64_t>(i) % flat.seq_len);
    }
    add("flat positions", "each token is one further, on every axis", flat);
  }

  // The meant positions with those of grids (or of all tokens) put otherwise.
  AxisPositions placed(const Place& place) const {
    AxisPositions moved = positions_;
    std::int64_t first = 0;
    for (const Segment& segment : question_.segments) {
      for (std::int64_t axis = 0; axis < moved.n_axes && !segment.text; ++axis) {
        for (std::int64_t i = 0; i < segment.tokens(); ++i) {
          double& value = moved.values[static_cast<std::size_t>(axis * moved.seq_len + first + i)];
          value = place(segment, axis, i, value);
        }
      }
      first += segment.tokens();
    }
    return moved;
  }

  // Each segment keeps its shape and begins where `next` puts it.
  AxisPositions resumed(const std::function<double(const Segment&, double start, double largest)>& next) const {
    AxisPositions moved = positions_;
    std::int64_t first = 0;
    double start = 0;
    for (const Segment& segment : question_.segments) {
      const double shift = start - positions_.at(0, first);
      double largest = start;
      for (std::int64_t axis = 0; axis < std::min<std::int64_t>(moved.n_axes, 3); ++axis) {
        for (std::int64_t i = first; i < first + segment.tokens(); ++i) {
          double& value = moved.values[static_cast<std::size_t>(axis * moved.seq_len + i)];
          value += shift;
          largest = std::max(largest, value);
        }
      }
      start = segment.text ? largest + 1 : next(segment, start, largest);
      first += segment.tokens();
    }
    return moved;
  }

  void of_text_grids() {
    add("text resumes at the token count", "a grid of n tokens takes n positions, as in a text model",
        resumed([](const Segment& s, double start, double) { return start + static_cast<double>(s.tokens()); }));
    add("text resumes without the plus one", "at the largest position itself",
        resumed([](const Segment&, double, double largest) { return largest; }));
    const auto extent = [](const Segment& s, double start, double) {
      return start + static_cast<double>(std::max(s.rows, s.columns));
    };
    const auto past_all = [](const Segment&, double, double largest) { return largest + 1; };
    if (question_.position_settings.rule == PositionRule::max_plus_one) {
      add("text resumes at the grid's extent", "frames are not counted, as in transformers 5.24", resumed(extent));
    } else {
      add("text resumes past the last frame", "at the largest position of any axis plus one", resumed(past_all));
    }
    AxisPositions from_zero = positions_;
    std::int64_t first = 0;
    for (const Segment& segment : question_.segments) {
      const double start = positions_.at(0, first);
      for (std::int64_t axis = 0; axis < 3 && !segment.text; ++axis) {
        for (std::int64_t i = first; i < first + segment.tokens(); ++i) {
          from_zero.values[static_cast<std::size_t>(axis * from_zero.seq_len + i)] -= start;
        }
      }
      first += segment.tokens();
    }
    add("grid from 0", "rows, columns and frames count from 0, not from where the text ends", from_zero);
    add("frames not counted", "every frame has the time of the first",
        placed([&](const Segment& s, std::int64_t axis, std::int64_t i, double value) {
          const auto frame = static_cast<double>(i / (s.rows * s.columns));
          return axis == 0 ? value - std::floor(frame * question_.position_settings.frame_step) : value;
        }));
  }

  void of_centres() {
    const auto side = [](const Segment& s, std::int64_t axis) {
      return static_cast<double>(axis == 0 ? s.rows : s.columns);
    };
    add("coordinates from 0 to 1", "not spread to [-1, 1]",
        placed([](const Segment&, std::int64_t, std::int64_t, double value) { return (value + 1) / 2; }));
    add("corners for centres", "the half of a patch is missing",
        placed([&](const Segment& s, std::int64_t axis, std::int64_t, double value) {
          return value - 1 / side(s, axis);
        }));
    add("both axes by the longer side", "coordinates keep the image's shape",
        placed([&](const Segment& s, std::int64_t axis, std::int64_t, double value) {
          return value * side(s, axis) / static_cast<double>(std::max(s.rows, s.columns));
        }));
  }

  void of_grids() {
    const PositionRule rule = question_.position_settings.rule;
    if (rule == PositionRule::flat || rule == PositionRule::v2pe) return;
    const std::int64_t row = rope_.n_axes == 2 ? 0 : 1;
    if (rule == PositionRule::patch_centres) {
      of_centres();
    } else {
      for (const double step : {1.0, -1.0}) {
        const auto moved = [&](bool rows, bool columns) {
          return placed([=](const Segment&, std::int64_t axis, std::int64_t, double value) {
            return (axis == row && rows) || (axis == row + 1 && columns) ? value + step : value;
          });
        };
        add("grid off by one", fmt::format("rows and columns {:+g}", step), moved(true, true));
        add("grid off by one", fmt::format("rows {:+g}", step), moved(true, false));
        add("grid off by one", fmt::format("columns {:+g}", step), moved(false, true));
      }
    }
    if (rule == PositionRule::max_plus_one || rule == PositionRule::spatial_extent) of_text_grids();
    if (rule == PositionRule::patches) {
      PositionSettings other = question_.position_settings;
      other.n_axes = rope_.n_axes;
      other.merge = other.merge == 1 ? 2 : 1;
      const bool fits = std::all_of(question_.segments.begin(), question_.segments.end(), [&](const Segment& s) {
        return s.rows % other.merge == 0 && s.columns % other.merge == 0;
      });
      if (fits) {
        add(other.merge == 1 ? "merge blocks ignored" : "merge blocks of 2",
            other.merge == 1 ? "row by row" : "patches in blocks of 2 x 2, as Qwen2-VL's tower has them",
            axis_positions(question_.segments, other));
      }
    }
    if (question_.position_settings.merge == 1) column_by_column(row);
  }

  // Token i of a frame gets the place of row i mod rows and column i / rows.
  void column_by_column(std::int64_t row) {
    AxisPositions moved = positions_;
    std::int64_t first = 0;
    for (const Segment& s : question_.segments) {
      const std::int64_t frame = s.rows * s.columns;
      for (std::int64_t i = 0; i < s.tokens() && !s.text; ++i) {
        const std::int64_t in_frame = i % frame, from = first + i - in_frame;
        const std::int64_t read = from + in_frame % s.rows * s.columns + in_frame / s.rows;
        for (std::int64_t axis = row; axis < row + 2; ++axis) {
          moved.values[static_cast<std::size_t>(axis * moved.seq_len + first + i)] = positions_.at(axis, read);
        }
      }
      first += s.tokens();
    }
    add("grid read column by column", "tokens run down the columns", moved);
  }

  const AxesQuestion& question_;
  const MultiAxisSettings& settings_;
  MultiAxisRope rope_;
  AxisPositions positions_;
  std::vector<double> meant_;
  std::vector<AxesMistake> found_;
};

}  // namespace

std::vector<AxesMistake> multi_axis_mistakes(const AxesQuestion& question) { return Mistakes(question).all(); }

}  // namespace poslab
