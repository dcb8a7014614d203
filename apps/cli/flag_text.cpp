#include "cli/flag_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

}  // namespace poslab::cli
