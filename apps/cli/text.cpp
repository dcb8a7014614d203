#include "cli/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/picture.h"

namespace poslab::cli {
namespace {

constexpr std::int64_t rows_shown = 20;
constexpr std::size_t entries_shown = 8;
constexpr std::size_t longest_cell = 40;  // of a table that is wider than the terminal

std::string bold(std::string_view text, bool color) {
  return color ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

template <class T>
std::string joined(const std::vector<T>& list) {
  std::string out;
  for (std::size_t i = 0; i < std::min(list.size(), entries_shown); ++i) {
    if (i) out += ' ';
    if constexpr (std::is_same_v<T, double>) {
      out += std::isfinite(list[i]) ? fmt::format("{:.6g}", list[i]) : "-";
    } else {
      out += fmt::format("{}", list[i]);
    }
  }
  if (list.size() > entries_shown) out += fmt::format(" … ({} in all)", list.size());
  return out;
}

// For reading, not for parsing: six digits.
std::string cell(const Value& value) {
  struct Visitor {
    std::string operator()(std::monostate) const { return "-"; }
    std::string operator()(bool v) const { return v ? "yes" : "no"; }
    std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return std::isfinite(v) ? fmt::format("{:.6g}", v) : "-"; }
    std::string operator()(const std::string& v) const { return v; }
    std::string operator()(const std::vector<std::int64_t>& v) const { return joined(v); }
    std::string operator()(const std::vector<double>& v) const { return joined(v); }
    std::string operator()(const std::vector<std::string>& v) const { return joined(v); }
  };
  return std::visit(Visitor{}, value);
}

// Columns, not bytes: continuation bytes of UTF-8 take no place.
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& lines,
                  const std::vector<bool>& left, bool color) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < header.size(); ++c) {
    std::size_t width = columns_of(header[c]);
    for (const auto& line : lines) width = std::max(width, columns_of(line[c]));
    widths.push_back(width);
  }
  const auto row = [&](const std::vector<std::string>& cells) {
    std::string out;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string pad(widths[c] - columns_of(cells[c]), ' ');
      if (c) out += "  ";
      out += left[c] ? cells[c] + pad : pad + cells[c];
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  };
  std::string out = bold(row(header), color) + "\n";
  for (const auto& line : lines) out += row(line) + "\n";
  return out;
}

// A block per row, for rows whose texts would wrap in a table.
std::string records(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& lines,
                    bool color) {
  std::size_t width = 0;
  for (const std::string& name : header) width = std::max(width, columns_of(name));
  std::string out;
  for (const auto& line : lines) {
    out += bold(line.front(), color) + "\n";
    for (std::size_t c = 1; c < line.size(); ++c) {
      if (line[c] != "-") out += fmt::format("  {:<{}}  {}\n", header[c], width, line[c]);
    }
  }
  return out;
}

bool is_text(const FieldSpec& spec) {
  return spec.list || spec.kind == FieldKind::text || spec.kind == FieldKind::path || spec.kind == FieldKind::word;
}

std::string rows_table(const Document& document, const TextStyle& style) {
  const RowSource& rows = document.report.rows;
  if (rows.count == 0) return {};
  const auto columns = filled_columns(document);
  std::vector<std::string> header;
  std::vector<bool> left;
  for (std::size_t column : columns) {
    const FieldSpec& spec = document.row_fields[column];
    header.push_back(spec.unit.empty() ? spec.name : fmt::format("{} ({})", spec.name, spec.unit));
    left.push_back(is_text(spec));
  }
  std::vector<std::vector<std::string>> lines;
  Record row;
  for (std::int64_t i = 0; i < std::min(rows.count, rows_shown); ++i) {
    rows.fill(i, row);
    auto& line = lines.emplace_back();
    for (std::size_t column : columns) line.push_back(cell(row[column]));
  }
  std::string out = table(header, lines, left, style.color);
  const std::size_t longest = columns_of(std::string_view(out).substr(0, out.find('\n')));
  const bool wraps = std::any_of(lines.begin(), lines.end(), [&](const auto& line) {
    return std::any_of(line.begin(), line.end(), [&](const auto& c) { return columns_of(c) > longest_cell; });
  });
  if (wraps && longest > static_cast<std::size_t>(style.width)) out = records(header, lines, style.color);
  if (rows.count > rows_shown) {
    out += fmt::format("… {} rows in all; --format csv or json gives every one\n", rows.count);
  }
  return out;
}

}  // namespace

std::string text_document(const Document& document, const Experiment& experiment, const TextStyle& style) {
  std::string out = bold(fmt::format("{}: {}", experiment.name, experiment.question), style.color) + "\n";
  const auto section = [&](const std::string& text) {
    if (text.empty()) return;
    out += '\n';
    out += text;
    if (!text.ends_with('\n')) out += '\n';
  };
  section(document.report.conclusion);
  for (const Picture& picture : document.report.pictures) section(draw(picture, style.width, style.color));

  std::string summary;
  std::size_t width = 0;
  for (const FieldSpec& spec : document.summary_fields) width = std::max(width, spec.name.size());
  for (std::size_t i = 0; i < document.summary_fields.size(); ++i) {
    const FieldSpec& spec = document.summary_fields[i];
    const std::string value = cell(document.report.summary[i]);
    if (value.empty() || value == "-") continue;
    summary += fmt::format("{:<{}}  {}{}\n", spec.name, width, value, spec.unit.empty() ? "" : " " + spec.unit);
  }
  section(summary);
  section(rows_table(document, style));
  return out;
}

SummaryTable::SummaryTable(const Experiment& experiment, std::vector<std::size_t> swept, TextStyle style)
    : experiment_(experiment), swept_(std::move(swept)), style_(style) {}

void SummaryTable::add(const Document& document) {
  auto& line = lines_.emplace_back();
  for (std::size_t param : swept_) line.push_back(cell(document.params[param]));
  for (std::size_t i = 0; i < document.summary_fields.size(); ++i) {
    if (!document.summary_fields[i].list) line.push_back(cell(document.report.summary[i]));
  }
}

std::string SummaryTable::text() const {
  std::vector<std::string> header;
  std::vector<bool> left;
  for (std::size_t param : swept_) {
    header.push_back(experiment_.params[param].name);
    left.push_back(is_text(experiment_.params[param]));
  }
  for (const FieldSpec& spec : experiment_.summary) {
    if (spec.list) continue;
    header.push_back(spec.name);
    left.push_back(is_text(spec));
  }
  // What no point changes is said once, so that what changes fits beside each other.
  std::string constant;
  std::vector<std::string> shown_header;
  std::vector<bool> shown_left;
  std::vector<std::vector<std::string>> shown(lines_.size());
  for (std::size_t c = 0; c < header.size(); ++c) {
    const bool varies =
        c < swept_.size() || lines_.size() < 2 ||
        std::any_of(lines_.begin(), lines_.end(), [&](const auto& line) { return line[c] != lines_.front()[c]; });
    if (varies) {
      shown_header.push_back(header[c]);
      shown_left.push_back(left[c]);
      for (std::size_t i = 0; i < lines_.size(); ++i) shown[i].push_back(lines_[i][c]);
    } else if (lines_.front()[c] != "-") {
      constant += fmt::format("{}{} {}", constant.empty() ? "at every point: " : ", ", header[c], lines_.front()[c]);
    }
  }
  return bold(fmt::format("{}: {}", experiment_.name, experiment_.question), style_.color) + "\n\n" +
         table(shown_header, shown, shown_left, style_.color) + (constant.empty() ? "" : "\n" + constant + "\n");
}

}  // namespace poslab::cli
