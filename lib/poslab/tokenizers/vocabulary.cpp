#include "poslab/tokenizers/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <system_error>

#include "poslab/core/printable.h"

namespace poslab {
namespace {

// Fills a vocabulary part by part; each part needs those before it.
class GgufVocabularyReader {
 public:
  explicit GgufVocabularyReader(const GgufFile& file) : file_(file) {}

  TokenVocabulary read() {
    read_kind();
    read_tokens();
    read_types_and_scores();
    v_.bytes.fill(-1);
    for (std::size_t i = 0; i < v_.texts.size(); ++i) index_token(i);
    for (auto* tokens : {&v_.user_defined, &v_.control}) {
      for (auto& list : *tokens) {
        std::stable_sort(list.begin(), list.end(),
                         [&](std::int64_t a, std::int64_t b) { return v_.text(a).size() > v_.text(b).size(); });
      }
    }
    v_.space_prefix = file_.boolean("tokenizer.ggml.add_space_prefix").value_or(v_.sentencepiece);
    if (file_.boolean("tokenizer.ggml.add_bos_token").value_or(v_.sentencepiece)) {
      v_.bos = token_of("tokenizer.ggml.bos_token_id");
    }
    v_.unknown = token_of("tokenizer.ggml.unknown_token_id").value_or(v_.sentencepiece ? 0 : -1);
    if (!v_.sentencepiece) {
      read_pre_tokenizer();
      read_byte_tokens();
      read_merges();
    }
    return std::move(v_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(fmt::format("[tokenizer] {}: {}.", file_.path(), what));
  }

  void read_kind() {
    const auto model = file_.text("tokenizer.ggml.model");
    if (!model) fail("holds no tokenizer (tokenizer.ggml.model)");
    v_.sentencepiece = *model == "llama";
    if (!v_.sentencepiece && *model != "gpt2") {
      fail(fmt::format("has a tokenizer of kind {}; llama and gpt2 are read, scripts/encode_text.py serves others",
                       printable(*model)));
    }
  }

  void read_tokens() {
    const auto texts = file_.strings("tokenizer.ggml.tokens");
    if (texts.empty()) fail("tokenizer.ggml.tokens is empty");
    if (texts.size() > std::numeric_limits<std::int32_t>::max()) fail("has too many tokens");
    v_.texts.assign(texts.begin(), texts.end());
  }

  void read_types_and_scores() {
    const std::size_t n = v_.texts.size();
    const auto types = file_.numbers("tokenizer.ggml.token_type");
    v_.scores = file_.numbers("tokenizer.ggml.scores");
    if (!types.empty() && types.size() != n) fail(fmt::format("has {} token types for {} tokens", types.size(), n));
    if (v_.sentencepiece && v_.scores.size() != n) {
      fail(fmt::format("has {} scores for {} tokens", v_.scores.size(), n));
    }
    for (double score : v_.scores) {
      if (std::isnan(score)) fail("has a score that is no number");
    }
    v_.types.assign(n, TokenType::normal);
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (!(types[i] >= 1 && types[i] <= 6)) fail(fmt::format("token {} has the unknown type {}", i, types[i]));
      v_.types[i] = static_cast<TokenType>(types[i]);
    }
  }

  // Where a token is found: by its text, its byte, and in a text before anything is merged.
  void index_token(std::size_t i) {
    const std::string& text = v_.texts[i];
    const std::int64_t id = static_cast<std::int64_t>(i);
    v_.ids.emplace(text, id);  // of equal texts the first serves
    if (v_.types[i] == TokenType::byte) {
      const int byte = byte_of(text);
      if (byte < 0) fail(fmt::format("byte token {} is written {}, not <0x00>", i, printable(text)));
      v_.bytes[static_cast<std::size_t>(byte)] = id;
    }
    if (text.empty()) return;
    if (v_.types[i] != TokenType::control) {
      for (std::size_t at = text.find(space_mark, 1); at != text.npos; at = text.find(space_mark, at + 1)) {
        v_.joins[static_cast<unsigned char>(text[at - 1])] = true;
      }
    }
    const auto first = static_cast<unsigned char>(text.front());
    if (v_.types[i] == TokenType::user_defined) v_.user_defined[first].push_back(id);
    if (v_.types[i] == TokenType::control || v_.types[i] == TokenType::unknown) v_.control[first].push_back(id);
  }

  std::optional<std::int64_t> token_of(std::string_view key) const {
    const auto id = file_.integer(key);
    if (id && (*id < 0 || *id >= std::ssize(v_.texts))) {
      fail(fmt::format("{} is {}, past the {} tokens", key, *id, v_.texts.size()));
    }
    return id;
  }

  void read_pre_tokenizer() {
    const std::string_view name = file_.text("tokenizer.ggml.pre").value_or("gpt-2");
    const auto pre = find_pre_tokenizer(name);
    if (!pre) {
      fail(fmt::format("cuts words in the way {}; {} are known, scripts/encode_text.py serves others", printable(name),
                       known_pre_tokenizers()));
    }
    v_.pre = *pre;
    v_.composes = name == "qwen2";
  }

  void read_byte_tokens() {
    for (unsigned b = 0; b < 256; ++b) {
      v_.bytes[b] = v_.find(byte_alphabet().text[b]);
      // SmolLM2 has none for some control characters.
      if (v_.bytes[b] < 0 && v_.unknown < 0) fail(fmt::format("has no token for the byte {:#04x}", b));
    }
  }

  void read_merges() {
    double rank = 0;
    for (std::string_view merge : file_.strings("tokenizer.ggml.merges")) {
      // A space parts the two, and neither is empty or holds one (bytes are written otherwise).
      const std::size_t gap = merge.find(' ', 1);
      const std::string_view left = merge.substr(0, gap);
      const std::string_view right = gap == merge.npos ? std::string_view() : merge.substr(gap + 1);
      const std::int64_t a = v_.find(left), b = v_.find(right);
      const std::int64_t both = v_.find(std::string(left) + std::string(right));
      if (a < 0 || b < 0 || both < 0) fail(fmt::format("merge {:.0f} ('{}') names no tokens", rank, printable(merge)));
      v_.merges.emplace(TokenVocabulary::pair(a, b), Merge{rank, both});
      ++rank;
    }
  }

  const GgufFile& file_;
  TokenVocabulary v_;
};

}  // namespace

ByteAlphabet::ByteAlphabet() {
  unsigned next = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    const unsigned c = printable ? b : next++;
    text[b] = c < 0x80 ? std::string(1, static_cast<char>(c))
                       : std::string{static_cast<char>(0xc0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3f))};
    byte[text[b]] = static_cast<unsigned char>(b);
  }
}

const ByteAlphabet& byte_alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

int byte_of(std::string_view text) {
  unsigned char byte = 0;
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return -1;
  const char* digits = text.data() + 3;
  const auto [end, error] = std::from_chars(digits, digits + 2, byte, 16);
  return error == std::errc() && end == digits + 2 ? byte : -1;
}

TokenVocabulary read_vocabulary(const GgufFile& file) { return GgufVocabularyReader(file).read(); }

}  // namespace poslab
