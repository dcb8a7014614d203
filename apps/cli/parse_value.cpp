#include "cli/parse_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "poslab/core/numbers.h"
#include "poslab/core/utf8.h"

namespace poslab::cli {
namespace {

std::vector<std::string_view> split_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  if (text.empty()) return parts;
  for (std::size_t begin = 0;;) {
    const std::size_t comma = text.find(',', begin);
    parts.push_back(text.substr(begin, comma - begin));
    if (comma == std::string_view::npos) return parts;
    begin = comma + 1;
  }
}

std::string parse_text(std::string_view text, std::string_view where) {
  if (!is_utf8(text)) throw UsageError(fmt::format("{}: the text is not valid UTF-8", where));
  return std::string(text);
}

std::string parse_word(const FieldSpec& spec, std::string_view text, std::string_view where) {
  if (std::find(spec.words.begin(), spec.words.end(), text) == spec.words.end()) {
    throw UsageError(fmt::format("{}: '{}' is not one of {}{}", where, text, fmt::join(spec.words, ", "),
                                 suggestion(text, spec.words)));
  }
  return std::string(text);
}

template <class T, class Parse>
std::vector<T> parse_list(std::string_view text, Parse parse) {
  std::vector<T> out;
  for (std::string_view part : split_commas(text)) out.push_back(parse(part));
  return out;
}

}  // namespace

Value parse_value(const FieldSpec& spec, std::string_view text, std::string_view where) {
  if (spec.optional && text == "null") return std::monostate{};
  if (spec.kind == FieldKind::boolean) {
    if (text == "true") return true;
    if (text == "false") return false;
    throw UsageError(fmt::format("{}: '{}' is neither true nor false", where, text));
  }
  const auto integer = [&](std::string_view part) { return parse_integer(part, where); };
  const auto real = [&](std::string_view part) { return parse_real(part, where); };
  const auto plain = [&](std::string_view part) { return parse_text(part, where); };
  const auto word = [&](std::string_view part) { return parse_word(spec, part, where); };
  switch (spec.kind) {
    case FieldKind::integer:
      return spec.list ? Value(parse_list<std::int64_t>(text, integer)) : Value(integer(text));
    case FieldKind::real:
      return spec.list ? Value(parse_list<double>(text, real)) : Value(real(text));
    case FieldKind::text:
    case FieldKind::path:
      return spec.list ? Value(parse_list<std::string>(text, plain)) : Value(plain(text));
    default:
      return spec.list ? Value(parse_list<std::string>(text, word)) : Value(word(text));
  }
}

std::string type_name(const FieldSpec& spec) {
  std::string name;
  switch (spec.kind) {
    case FieldKind::boolean:
      name = "boolean";
      break;
    case FieldKind::integer:
      name = "integer";
      break;
    case FieldKind::real:
      name = "real";
      break;
    case FieldKind::text:
      name = "text";
      break;
    case FieldKind::path:
      name = "path";
      break;
    case FieldKind::word:
      name = fmt::format("{}", fmt::join(spec.words, "|"));
      break;
  }
  return spec.list ? "list of " + name : name;
}

std::string flag_of(std::string_view field_name) {
  std::string flag = "--";
  flag += field_name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

}  // namespace poslab::cli
