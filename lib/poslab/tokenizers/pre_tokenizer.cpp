#include "poslab/tokenizers/pre_tokenizer.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "poslab/core/utf8.h"

namespace poslab {
namespace {

struct CodeRange {
  char32_t begin, end;  // half-open
};
#include "poslab/tokenizers/unicode_ranges.inc"

constexpr std::pair<std::string_view, PreTokenizer> names[] = {
    {"gpt-2", PreTokenizer::gpt2},          {"phi-2", PreTokenizer::gpt2},
    {"olmo", PreTokenizer::gpt2},           {"mpt", PreTokenizer::gpt2},
    {"smollm", PreTokenizer::digits},       {"starcoder", PreTokenizer::digits},
    {"refact", PreTokenizer::digits},       {"command-r", PreTokenizer::digits},
    {"llama-bpe", PreTokenizer::llama_bpe}, {"llama3", PreTokenizer::llama_bpe},
    {"llama-v3", PreTokenizer::llama_bpe},  {"smaug-bpe", PreTokenizer::llama_bpe},
    {"dbrx", PreTokenizer::llama_bpe},      {"qwen2", PreTokenizer::qwen2},
    {"stablelm2", PreTokenizer::qwen2},     {"deepseek-r1-qwen", PreTokenizer::qwen2}};

enum class Kind : std::uint8_t { letter, number, space, other };

template <std::size_t N>
bool within(const CodeRange (&ranges)[N], char32_t c) {
  const auto* after = std::upper_bound(std::begin(ranges), std::end(ranges), c,
                                       [](char32_t value, const CodeRange& range) { return value < range.begin; });
  return after != std::begin(ranges) && c < std::prev(after)->end;
}

Kind kind_of(char32_t c) {
  if (c < 0x80) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return Kind::letter;
    if (c >= '0' && c <= '9') return Kind::number;
    return c == ' ' || (c >= 9 && c <= 13) ? Kind::space : Kind::other;
  }
  if (c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
      c == 0x202f || c == 0x205f || c == 0x3000) {
    return Kind::space;
  }
  return within(letter_ranges, c) ? Kind::letter : within(number_ranges, c) ? Kind::number : Kind::other;
}

// The text as characters, to look ahead by character.
struct Scanner {
  std::string_view text;
  std::vector<std::uint32_t> at;  // byte offset of each character, and of the end
  std::vector<Kind> kinds;

  explicit Scanner(std::string_view whole) : text(whole) {
    for (std::size_t i = 0; i < whole.size();) {
      const Utf8Character character = first_utf8(whole.substr(i));
      // A byte that is no character stands for itself.
      const std::size_t length = std::max<std::size_t>(character.length, 1);
      const char32_t c = character.length ? character.code : static_cast<unsigned char>(whole[i]);
      at.push_back(static_cast<std::uint32_t>(i));
      kinds.push_back(kind_of(c));
      i += length;
    }
    at.push_back(static_cast<std::uint32_t>(whole.size()));
  }

  std::size_t size() const { return kinds.size(); }
  bool is(std::size_t i, Kind kind) const { return i < size() && kinds[i] == kind; }
  char byte(std::size_t i) const { return i < size() ? text[at[i]] : '\0'; }
  bool newline(std::size_t i) const { return byte(i) == '\n' || byte(i) == '\r'; }
  std::size_t run(std::size_t i, Kind kind, std::size_t longest = SIZE_MAX) const {
    const std::size_t begin = i;
    while (i - begin < longest && is(i, kind)) ++i;
    return i;
  }

  // The end of 's, 't, 're, 've, 'm, 'll or 'd at i; i where there is none.
  std::size_t contraction(std::size_t i, bool any_case) const {
    if (byte(i) != '\'') return i;
    const auto letter = [&](std::size_t k) {
      const char c = byte(k);
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const char a = letter(i + 1), b = letter(i + 2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return i + 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? i + 3 : i;
  }

  // \s+(?!\S)|\s+: a run of spaces leaves its last one to a word that follows.
  std::size_t spaces(std::size_t i) const {
    const std::size_t end = run(i, Kind::space);
    return end < size() && end - i > 1 ? end - 1 : end;
  }

  std::size_t gpt2_word(std::size_t i) const {
    if (const std::size_t end = contraction(i, false); end > i) return end;
    const std::size_t start = byte(i) == ' ' ? i + 1 : i;
    for (Kind kind : {Kind::letter, Kind::number, Kind::other}) {
      if (is(start, kind)) return run(start, kind);
    }
    return spaces(i);
  }

  std::size_t llama3_word(std::size_t i, std::size_t digits) const {
    if (const std::size_t end = contraction(i, true); end > i) return end;
    if (is(i, Kind::letter)) return run(i, Kind::letter);
    if (!newline(i) && !is(i, Kind::number) && is(i + 1, Kind::letter)) return run(i + 1, Kind::letter);
    if (is(i, Kind::number)) return run(i, Kind::number, digits);
    const std::size_t start = byte(i) == ' ' ? i + 1 : i;
    if (is(start, Kind::other)) {
      std::size_t end = run(start, Kind::other);
      while (newline(end)) ++end;
      return end;
    }
    const std::size_t end = run(i, Kind::space);
    for (std::size_t last = end; last > i; --last) {
      if (newline(last - 1)) return last;
    }
    return spaces(i);
  }
};

template <class Next>
void cut(std::string_view text, std::vector<std::string_view>& words, Next next) {
  const Scanner scanner(text);
  for (std::size_t i = 0; i < scanner.size();) {
    const std::size_t end = next(scanner, i);
    words.push_back(text.substr(scanner.at[i], scanner.at[end] - scanner.at[i]));
    i = end;
  }
}

}  // namespace

std::optional<PreTokenizer> find_pre_tokenizer(std::string_view ggml_name) {
  for (const auto& [name, kind] : names) {
    if (name == ggml_name) return kind;
  }
  return std::nullopt;
}

std::string known_pre_tokenizers() {
  std::string out;
  for (const auto& [name, kind] : names) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

void pre_tokenize(PreTokenizer kind, std::string_view text, std::vector<std::string_view>& words) {
  switch (kind) {
    case PreTokenizer::gpt2:
      return cut(text, words, [](const Scanner& s, std::size_t i) { return s.gpt2_word(i); });
    case PreTokenizer::digits: {
      std::vector<std::string_view> parts;
      cut(text, parts, [](const Scanner& s, std::size_t i) {
        if (s.is(i, Kind::number)) return i + 1;
        while (i < s.size() && !s.is(i, Kind::number)) ++i;
        return i;
      });
      for (std::string_view part : parts) pre_tokenize(PreTokenizer::gpt2, part, words);
      return;
    }
    case PreTokenizer::llama_bpe:
      return cut(text, words, [](const Scanner& s, std::size_t i) { return s.llama3_word(i, 3); });
    case PreTokenizer::qwen2:
      return cut(text, words, [](const Scanner& s, std::size_t i) { return s.llama3_word(i, 1); });
  }
}

}  // namespace poslab
