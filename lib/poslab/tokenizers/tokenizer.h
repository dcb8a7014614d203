// Text to tokens and back with the vocabulary of a GGUF file (SentencePiece's BPE with byte fallback,
// tokenizer.ggml.model "llama", and byte-level BPE, "gpt2") or with a sentencepiece .model file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/formats/gguf.h"
#include "poslab/tokenizers/sentencepiece_library.h"

namespace poslab {

struct TokenVocabulary;

class Tokenizer {
 public:
  // Throws std::invalid_argument "[tokenizer] PATH: ..." for another kind of vocabulary or pre-tokenizer (named, with
  // what is supported; scripts/encode_text.py serves the rest), none at all, and parts that do not fit together.
  explicit Tokenizer(const GgufFile& file);
  // A sentencepiece .model, by libsentencepiece; throws as SentencepieceModel does.
  static Tokenizer from_sentencepiece(const std::string& path);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  std::int64_t size() const;
  // The token that starts a text, where the file says that one does.
  std::optional<std::int64_t> bos() const;

  // No token is added at either end. Names of control tokens ("<s>") in the text count as text, unless parse_special
  // (of a .model they always do). Qwen's text is brought to the normal form NFC, as its tokenizer.json says (llama.cpp
  // does not), a .model normalises as it says itself. Throws std::invalid_argument "[tokenizer] ..." with the byte
  // offset of what is no valid UTF-8.
  std::vector<std::int64_t> encode(std::string_view text, bool parse_special = false) const;

  // Control tokens leave nothing. The bytes need not be valid UTF-8 when a character is cut. Throws
  // std::invalid_argument for a token that is not 0 .. size() - 1.
  std::string decode(std::span<const std::int64_t> tokens) const;

 private:
  Tokenizer(std::unique_ptr<const TokenVocabulary> vocabulary, std::unique_ptr<const SentencepieceModel> model);
  // One of the two.
  std::unique_ptr<const TokenVocabulary> vocabulary_;
  std::unique_ptr<const SentencepieceModel> model_;
};

// The tokenizer that goes with a model: of a GGUF file its own; of a folder the sentencepiece model in it
// (tokenizer.model, spiece.model) or, without one, that of its only GGUF file. Absent: there is none that is read here.
std::optional<Tokenizer> find_tokenizer(const std::string& model);

}  // namespace poslab
