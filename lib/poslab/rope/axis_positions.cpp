#include "poslab/rope/axis_positions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string_view>

namespace poslab {
namespace {

constexpr std::int64_t most_tokens = std::int64_t{1} << 24;

[[noreturn]] void refuse_segment(const std::string& word) {
  throw std::invalid_argument(
      fmt::format("[segments] '{}' must be text:TOKENS, image:ROWSxCOLUMNS or video:FRAMESxROWSxCOLUMNS, with whole "
                  "numbers from 1 to {}.",
                  word, most_tokens));
}

// The sizes of "2x3"; 0 stands for what is no size.
std::vector<std::int64_t> sizes(std::string_view text) {
  std::vector<std::int64_t> found;
  for (;;) {
    const std::size_t end = std::min(text.find('x'), text.size());
    std::int64_t size = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + end, size);
    const bool whole = error == std::errc() && rest == text.data() + end && size >= 1 && size <= most_tokens;
    found.push_back(whole ? size : 0);
    if (end == text.size()) return found;
    text.remove_prefix(end + 1);
  }
}

Segment parse_segment(const std::string& word) {
  const std::size_t colon = word.find(':');
  if (colon == std::string::npos) refuse_segment(word);
  const std::string kind = word.substr(0, colon);
  const std::size_t expected = kind == "text" ? 1 : kind == "image" ? 2 : kind == "video" ? 3 : 0;
  const std::vector<std::int64_t> given = sizes(std::string_view(word).substr(colon + 1));
  if (given.size() != expected || std::count(given.begin(), given.end(), 0) > 0) refuse_segment(word);
  Segment segment;
  segment.text = expected == 1;
  segment.columns = given.back();
  if (expected >= 2) segment.rows = given[expected - 2];
  if (expected == 3) segment.frames = given[0];
  return segment;
}

class Builder {
 public:
  Builder(const PositionSettings& settings, std::int64_t seq_len) : settings_(settings) {
    result_.n_axes = settings.n_axes;
    result_.seq_len = seq_len;
    result_.values.resize(static_cast<std::size_t>(settings.n_axes * seq_len));
  }

  void add(const Segment& segment) {
    switch (settings_.rule) {
      case PositionRule::patches:
      case PositionRule::patch_centres:
        return patches(segment);
      case PositionRule::flat:
        return line(segment.tokens(), 1, next_);
      case PositionRule::v2pe:
        return segment.text ? line(segment.tokens(), 1, next_) : fractions(segment);
      case PositionRule::max_plus_one:
      case PositionRule::spatial_extent:
        return segment.text ? line(segment.tokens(), 1, next_) : grid(segment);
    }
  }

  AxisPositions finish() {
    result_.next = next_;
    return std::move(result_);
  }

 private:
  void put(std::int64_t axis, double value) {
    result_.values[static_cast<std::size_t>(axis * result_.seq_len + token_)] = value;
  }

  // A fourth axis stays at 0, as llama.cpp leaves it.
  void put_all(double value) {
    for (std::int64_t axis = 0; axis < std::min<std::int64_t>(result_.n_axes, 3); ++axis) put(axis, value);
    ++token_;
  }

  void line(std::int64_t count, double step, double first) {
    for (std::int64_t i = 0; i < count; ++i) put_all(first + static_cast<double>(i) * step);
    next_ = first + static_cast<double>(count) * step;
  }

  void fractions(const Segment& segment) {
    const double last = next_ - 1;
    line(segment.tokens(), settings_.visual_step, last + settings_.visual_step);
    next_ = std::ceil(last + static_cast<double>(segment.tokens()) * settings_.visual_step) + 1;
  }

  void grid(const Segment& s) {
    const double first = next_;
    for (std::int64_t frame = 0; frame < s.frames; ++frame) {
      const double time = std::floor(static_cast<double>(frame) * settings_.frame_step);
      for (std::int64_t i = 0; i < s.rows * s.columns; ++i, ++token_) {
        put(0, first + time);
        put(1, first + static_cast<double>(i / s.columns));
        put(2, first + static_cast<double>(i % s.columns));
      }
    }
    double extent = static_cast<double>(std::max(s.rows, s.columns));
    if (settings_.rule == PositionRule::max_plus_one) {
      extent = std::max(extent, std::floor(static_cast<double>(s.frames - 1) * settings_.frame_step) + 1);
    }
    next_ = first + extent;
  }

  void patches(const Segment& s) {
    const bool centres = settings_.rule == PositionRule::patch_centres;
    const auto place = [&](std::int64_t i, std::int64_t n) {
      return centres ? 2 * ((static_cast<double>(i) + 0.5) / static_cast<double>(n)) - 1 : static_cast<double>(i);
    };
    const std::int64_t m = settings_.merge, block = m * m, blocks_in_row = s.columns / m;
    for (std::int64_t frame = 0; frame < s.frames; ++frame) {
      for (std::int64_t i = 0; i < s.rows * s.columns; ++i, ++token_) {
        const std::int64_t in_block = i % block, at = i / block;
        put(0, place(at / blocks_in_row * m + in_block / m, s.rows));
        put(1, place(at % blocks_in_row * m + in_block % m, s.columns));
      }
    }
    next_ = 0;
  }

  PositionSettings settings_;
  AxisPositions result_;
  std::int64_t token_ = 0;
  double next_ = 0;
};

void check(std::span<const Segment> segments, const PositionSettings& p) {
  const auto refuse = [](const std::string& text) { throw std::invalid_argument("[positions] " + text); };
  const bool tower = p.rule == PositionRule::patches || p.rule == PositionRule::patch_centres;
  const bool any = p.rule == PositionRule::flat || p.rule == PositionRule::v2pe;
  if (tower ? p.n_axes != 2 : any ? p.n_axes < 1 || p.n_axes > 4 : p.n_axes != 3 && p.n_axes != 4) {
    refuse(fmt::format("{} gives positions on {} axes, not on {}.", to_word(p.rule),
                       tower ? "2"
                       : any ? "1 to 4"
                             : "3",
                       p.n_axes));
  }
  if (!(p.frame_step >= 0) || !std::isfinite(p.frame_step)) {
    refuse(fmt::format("frame_step must be 0 or more but got {}.", p.frame_step));
  }
  if (!(p.visual_step > 0) || !std::isfinite(p.visual_step)) {
    refuse(fmt::format("visual_step must be above 0 but got {}.", p.visual_step));
  }
  if (p.merge < 1) refuse(fmt::format("merge must be at least 1 but got {}.", p.merge));
  for (const Segment& s : segments) {
    if (tower && s.text)
      refuse(fmt::format("{} is a rule for images alone: it has no place for text.", to_word(p.rule)));
    if (tower && (s.rows % p.merge != 0 || s.columns % p.merge != 0)) {
      refuse(fmt::format("merge {} does not divide a grid of {} x {} patches.", p.merge, s.rows, s.columns));
    }
  }
}

}  // namespace

std::vector<Segment> parse_segments(std::span<const std::string> words) {
  std::vector<Segment> segments;
  double tokens = 0;
  for (const std::string& word : words) {
    segments.push_back(parse_segment(word));
    const Segment& s = segments.back();
    tokens += static_cast<double>(s.frames) * static_cast<double>(s.rows) * static_cast<double>(s.columns);
    if (tokens > static_cast<double>(most_tokens)) {
      throw std::invalid_argument(
          fmt::format("[segments] more than {} tokens up to '{}': that is beyond every use.", most_tokens, word));
    }
  }
  return segments;
}

AxisPositions axis_positions(std::span<const Segment> segments, const PositionSettings& settings) {
  check(segments, settings);
  std::int64_t seq_len = 0;
  for (const Segment& segment : segments) seq_len += segment.tokens();
  Builder builder(settings, seq_len);
  for (const Segment& segment : segments) builder.add(segment);
  return builder.finish();
}

AxisPositions one_token(std::span<const double> position) {
  AxisPositions one;
  one.n_axes = static_cast<std::int64_t>(position.size());
  one.seq_len = 1;
  one.values.assign(position.begin(), position.end());
  return one;
}

}  // namespace poslab
