// What a byte-pair tokenizer knows: its tokens, what each is, and which merge first. The tokenizer reads it, its file
// formats fill it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "poslab/formats/gguf.h"
#include "poslab/tokenizers/pre_tokenizer.h"

namespace poslab {

// tokenizer.ggml.token_type.
enum class TokenType { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

inline constexpr std::string_view space_mark = "\xe2\x96\x81";  // U+2581, SentencePiece's space

// GPT-2's way to write bytes as printable characters: those that are printable in Latin-1 stand for themselves, the
// others follow from U+0100 on.
struct ByteAlphabet {
  std::array<std::string, 256> text;
  std::unordered_map<std::string, unsigned char> byte;

  ByteAlphabet();
};

const ByteAlphabet& byte_alphabet();

// The byte that "<0x0A>" stands for; -1 where it is written otherwise.
int byte_of(std::string_view text);

struct Merge {
  double order = 0;  // lower goes first
  std::int64_t token = -1;
};

// Tokens by their first byte, the longest first.
using TokensByFirstByte = std::array<std::vector<std::int64_t>, 256>;

struct TokenVocabulary {
  TokenVocabulary() = default;
  TokenVocabulary(TokenVocabulary&&) = default;  // a copy's ids would name the texts of another

  bool sentencepiece = false;
  bool space_prefix = true;
  PreTokenizer pre = PreTokenizer::gpt2;
  bool composes = false;  // byte-level: text is brought to NFC first
  std::optional<std::int64_t> bos;
  std::int64_t unknown = -1;
  std::array<bool, 256> joins{};  // sentencepiece: bytes that some token holds before a space
  std::vector<std::string> texts;
  std::vector<TokenType> types;
  std::vector<double> scores;                              // sentencepiece
  std::unordered_map<std::string_view, std::int64_t> ids;  // into texts
  std::array<std::int64_t, 256> bytes;                     // the token of each byte, -1: none
  std::unordered_map<std::uint64_t, Merge> merges;         // byte-level: by left and right token
  TokensByFirstByte user_defined, control;                 // found in the text before anything is merged

  static std::uint64_t pair(std::int64_t left, std::int64_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint64_t>(right);
  }
  TokenType type(std::int64_t token) const { return types[static_cast<std::size_t>(token)]; }
  const std::string& text(std::int64_t token) const { return texts[static_cast<std::size_t>(token)]; }
  std::int64_t find(std::string_view text) const {
    const auto found = ids.find(text);
    return found == ids.end() ? -1 : found->second;
  }

  // The longest of the tokens that `rest` starts with; -1: none.
  std::int64_t match(const TokensByFirstByte& tokens, std::string_view rest) const {
    for (std::int64_t token : tokens[static_cast<unsigned char>(rest.front())]) {
      if (rest.starts_with(text(token))) return token;
    }
    return -1;
  }
};

// tokenizer.ggml.* of a GGUF file. Throws std::invalid_argument "[tokenizer] PATH: ..." as Tokenizer's constructor
// says.
TokenVocabulary read_vocabulary(const GgufFile& file);

}  // namespace poslab
