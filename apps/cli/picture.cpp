#include "cli/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

namespace poslab::cli {
namespace {

constexpr std::array<std::string_view, 16> quadrants{" ", "▘", "▝", "▀", "▖", "▌", "▞", "▛",
                                                     "▗", "▚", "▐", "▜", "▄", "▙", "▟", "█"};
constexpr std::array<std::string_view, 5> shades{" ", "░", "▒", "▓", "█"};
constexpr std::array<int, 6> series_colors{33, 208, 35, 160, 97, 136};  // xterm's 256 colours
// Blue over grey to red, as matplotlib's coolwarm runs.
constexpr std::array<int, 9> heat_colors{26, 32, 74, 152, 252, 223, 216, 203, 160};

struct Bounds {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double v) {
    if (!std::isfinite(v)) return;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  bool empty() const { return low > high; }
  // 0 .. 1; the middle where there is no range.
  double place(double v) const { return high > low ? (v - low) / (high - low) : 0.5; }
};

std::string with_color(std::string_view text, int color) { return fmt::format("\x1b[38;5;{}m{}\x1b[0m", color, text); }

double x_of(const Series& series, std::size_t i) { return series.x.empty() ? static_cast<double>(i) : series.x[i]; }

std::string frame(const Picture& picture, const std::vector<std::string>& lines, const Bounds& x, std::string_view top,
                  std::string_view bottom, int plot_width) {
  const std::size_t margin = std::max(top.size(), bottom.size());
  std::string out;
  if (!picture.title.empty()) out += picture.title + "\n";
  if (!picture.y_label.empty()) out += fmt::format("{:>{}}  {}\n", "", margin, picture.y_label);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view label = i == 0 ? top : i + 1 == lines.size() ? bottom : std::string_view();
    const std::string& line = lines[i];
    out += fmt::format("{:>{}} │{}\n", label, margin, std::string_view(line).substr(0, line.find_last_not_of(' ') + 1));
  }
  const std::string left = fmt::format("{:.6g}", x.low), right = fmt::format("{:.6g}", x.high);
  const int gap = std::max<int>(1, plot_width - static_cast<int>(left.size() + right.size()));
  out += fmt::format("{:>{}}  {}{:^{}}{}\n", "", margin, left,
                     static_cast<int>(picture.x_label.size()) + 2 <= gap ? picture.x_label : std::string(), gap, right);
  return out;
}

std::string draw_lines(const Picture& picture, int width, bool color) {
  Bounds x, y;
  const auto height_of = [&](double v) { return picture.log_y ? std::log10(v) : v; };
  for (const Series& series : picture.series) {
    for (std::size_t i = 0; i < series.y.size(); ++i) {
      const double h = height_of(series.y[i]);
      if (!std::isfinite(h)) continue;
      x.add(x_of(series, i));
      y.add(h);
    }
  }
  if (y.empty()) return {};
  const auto label = [&](double h) { return fmt::format("{:.4g}", picture.log_y ? std::pow(10, h) : h); };
  const std::string top = label(y.high), bottom = label(y.low);
  const int rows = 10;
  const int columns = std::max(16, std::min(72, width - static_cast<int>(std::max(top.size(), bottom.size())) - 4));

  // Two by two dots to a cell; a cell takes the colour of the series that touched it last.
  std::vector<unsigned> dots(static_cast<std::size_t>(rows * columns), 0);
  std::vector<std::size_t> owner(dots.size(), 0);
  const auto mark = [&](double fx, double fy, std::size_t series) {
    const int dx = std::clamp(static_cast<int>(std::lround(fx * (2 * columns - 1))), 0, 2 * columns - 1);
    const int dy = std::clamp(static_cast<int>(std::lround((1 - fy) * (2 * rows - 1))), 0, 2 * rows - 1);
    const auto cell = static_cast<std::size_t>(dy / 2 * columns + dx / 2);
    dots[cell] |= 1u << (dy % 2 * 2 + dx % 2);
    owner[cell] = series;
  };
  for (std::size_t s = 0; s < picture.series.size(); ++s) {
    const Series& series = picture.series[s];
    for (std::size_t i = 0; i < series.y.size(); ++i) {
      const double h = height_of(series.y[i]);
      if (!std::isfinite(h)) continue;
      const double fx = x.place(x_of(series, i)), fy = y.place(h);
      mark(fx, fy, s);
      if (i == 0) continue;
      const double before = height_of(series.y[i - 1]);
      if (!std::isfinite(before)) continue;
      const double gx = x.place(x_of(series, i - 1)), gy = y.place(before);
      const int steps = static_cast<int>(std::max(std::abs(fx - gx) * 2 * columns, std::abs(fy - gy) * 2 * rows));
      for (int k = 1; k < steps; ++k) {
        const double t = static_cast<double>(k) / steps;
        mark(gx + t * (fx - gx), gy + t * (fy - gy), s);
      }
    }
  }
  std::vector<std::string> lines(rows);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      const auto cell = static_cast<std::size_t>(r * columns + c);
      const std::string_view glyph = quadrants[dots[cell]];
      auto& line = lines[static_cast<std::size_t>(r)];
      if (color && dots[cell]) {
        line += with_color(glyph, series_colors[owner[cell] % series_colors.size()]);
      } else {
        line += glyph;
      }
    }
  }
  std::string out = frame(picture, lines, x, top, bottom, columns);
  if (picture.series.size() > 1) {
    for (std::size_t s = 0; s < picture.series.size(); ++s) {
      const std::string name = "■ " + picture.series[s].name;
      out += "  " + (color ? with_color(name, series_colors[s % series_colors.size()]) : name);
    }
    out += '\n';
  }
  return out;
}

std::string draw_bars(const Picture& picture, int width, bool color) {
  std::string out = picture.title.empty() ? "" : picture.title + "\n";
  for (const Series& series : picture.series) {
    Bounds y;
    y.add(0);
    for (double v : series.y) y.add(v);
    const double scale = std::max(std::abs(y.low), y.high);
    const int room = std::max(8, std::min(48, width - 28));
    for (std::size_t i = 0; i < series.y.size(); ++i) {
      const double v = series.y[i];
      const int eighths =
          scale > 0 && std::isfinite(v) ? static_cast<int>(std::lround(std::abs(v) / scale * room * 8)) : 0;
      static constexpr std::array<std::string_view, 8> part{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
      std::string bar;
      for (int k = 0; k < eighths / 8; ++k) bar += "█";
      bar += part[static_cast<std::size_t>(eighths % 8)];
      out += fmt::format("{:>10.6g} │{} {:.6g}\n", x_of(series, i),
                         color ? with_color(bar, v < 0 ? heat_colors.front() : heat_colors.back()) : bar, v);
    }
  }
  return out;
}

std::string draw_heatmap(const Picture& picture, int width, bool color) {
  if (picture.height < 1 || picture.width < 1) return {};
  Bounds values;
  for (double v : picture.values) values.add(v);
  if (values.empty()) return {};
  const auto columns = std::min<std::int64_t>(picture.width, std::max(16, width - 4));
  const auto rows = std::min<std::int64_t>(picture.height, 32);
  // Nearest source value, so that fast waves are sampled, not smeared.
  const auto level = [&](std::int64_t r, std::int64_t c) {
    const std::int64_t sr = r * picture.height / rows, sc = c * picture.width / columns;
    return values.place(picture.values[static_cast<std::size_t>(sr * picture.width + sc)]);
  };
  const auto pick = [](double place, std::size_t n) {
    return std::min(n - 1, static_cast<std::size_t>(std::isfinite(place) ? place * static_cast<double>(n) : 0));
  };
  std::string out = picture.title.empty() ? "" : picture.title + "\n";
  if (!picture.y_label.empty()) out += "  " + picture.y_label + " ↓\n";
  // With colours two rows share a character cell: the upper half in the foreground.
  for (std::int64_t r = 0; r < rows; r += color ? 2 : 1) {
    out += "  ";
    for (std::int64_t c = 0; c < columns; ++c) {
      if (!color) {
        out += shades[pick(level(r, c), shades.size())];
      } else if (r + 1 < rows) {
        out += fmt::format("\x1b[38;5;{};48;5;{}m▀", heat_colors[pick(level(r, c), heat_colors.size())],
                           heat_colors[pick(level(r + 1, c), heat_colors.size())]);
      } else {
        out += fmt::format("\x1b[0m\x1b[38;5;{}m▀", heat_colors[pick(level(r, c), heat_colors.size())]);
      }
    }
    out += color ? "\x1b[0m\n" : "\n";
  }
  if (!picture.x_label.empty()) out += "  " + picture.x_label + " →\n";
  out += color ? fmt::format("  blue {:.4g} .. red {:.4g}\n", values.low, values.high)
               : fmt::format("  blank {:.4g} .. █ {:.4g}\n", values.low, values.high);
  return out;
}

}  // namespace

std::string draw(const Picture& picture, int width, bool color) {
  switch (picture.kind) {
    case PictureKind::lines:
      return draw_lines(picture, width, color);
    case PictureKind::bars:
      return draw_bars(picture, width, color);
    case PictureKind::heatmap:
      return draw_heatmap(picture, width, color);
  }
  return {};
}

}  // namespace poslab::cli
