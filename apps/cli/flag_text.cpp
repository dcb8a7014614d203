#include "cli/flag_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/parse_value.h"
#include "poslab/report/document.h"

namespace poslab::cli {
namespace {

std::string default_text(const FieldSpec& field) {
  std::string text;
  if (std::holds_alternative<std::monostate>(field.fallback)) return text;
  if (const auto* word = std::get_if<std::string>(&field.fallback)) {
    text = *word;
  } else if (const auto* words = std::get_if<std::vector<std::string>>(&field.fallback)) {
    text = fmt::format("{}", fmt::join(*words, ","));
  } else {
    append_json(text, field.fallback);
    std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == ' '; });
  }
  return text;
}

}  // namespace

std::string value_name(const FieldSpec& field) {
  if (field.kind == FieldKind::word) return fmt::format("{}{}", fmt::join(field.words, "|"), field.list ? ",..." : "");
  std::string name;
  switch (field.kind) {
    case FieldKind::integer:
      name = "N";
      break;
    case FieldKind::real:
      name = "X";
      break;
    case FieldKind::path:
      name = "PATH";
      break;
    default:
      name = "TEXT";
  }
  return field.list ? name + "," + name + ",..." : name;
}

std::string flag_usage(const FieldSpec& field) {
  const std::string flag = flag_of(field.name);
  return field.kind == FieldKind::boolean ? "--[no-]" + flag.substr(2) : flag;
}

std::string explained(const FieldSpec& field) {
  std::string text = field.help;
  if (!field.unit.empty()) text += fmt::format(" ({})", field.unit);
  if (const std::string fallback = default_text(field); !fallback.empty()) text += fmt::format(" [{}]", fallback);
  return text;
}

std::vector<FieldGroup> grouped(const std::vector<FieldSpec>& fields) {
  std::vector<FieldGroup> groups{{}};
  for (const FieldSpec& field : fields) {
    const auto titled = [&](const FieldGroup& group) { return group.title == field.group; };
    auto group = std::find_if(groups.begin(), groups.end(), titled);
    if (group == groups.end()) group = groups.insert(groups.end(), {field.group, {}});
    group->fields.push_back(&field);
  }
  if (groups.front().fields.empty()) groups.erase(groups.begin());
  return groups;
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string out;
  for (std::size_t room = width; text.size() > room; room = width) {
    std::size_t end = text.substr(0, room + 1).rfind(' ');
    if (end == std::string_view::npos || end == 0) end = text.substr(0, room).find_last_of("|,");
    if (end == std::string_view::npos) end = text.find_first_of(" |,");
    if (end == std::string_view::npos) break;
    if (text[end] != ' ') ++end;
    out.append(text.substr(0, end)).append(1, '\n').append(indent, ' ');
    text.remove_prefix(end);
    if (text.starts_with(' ')) text.remove_prefix(1);
  }
  return out.append(text);
}

}  // namespace poslab::cli
