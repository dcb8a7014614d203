// sentencepiece .model files, read and run by libsentencepiece. The library is loaded at first use: linking it would
// cost every start-up half a millisecond and more.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace poslab {

class SentencepieceModel {
 public:
  // Throws std::invalid_argument "[tokenizer] PATH: ..." for a file that cannot be read, is above 256 MiB or is no
  // sentencepiece model; std::runtime_error "[tokenizer] ..." when libsentencepiece is not installed.
  explicit SentencepieceModel(const std::string& path);
  ~SentencepieceModel();
  SentencepieceModel(SentencepieceModel&&) noexcept;

  std::int64_t size() const;                // tokens
  std::optional<std::int64_t> bos() const;  // the token that starts a text
  // With the model's own normalisation; no token is added at either end.
  std::vector<std::int64_t> encode(std::string_view text) const;
  std::string decode(std::span<const std::int64_t> tokens) const;  // each 0 .. size() - 1

 private:
  struct Processor;
  std::unique_ptr<Processor> processor_;
};

}  // namespace poslab
