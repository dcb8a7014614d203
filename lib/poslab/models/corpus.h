// Texts as tokens, and where a training run takes its batches from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "poslab/core/fields.h"
#include "poslab/core/random.h"
#include "poslab/models/checkpoint_config.h"
#include "poslab/models/tasks.h"

namespace poslab {

enum class TextUnit { characters, bytes };
constexpr auto words(TextUnit) {
  return word_table<TextUnit>({{TextUnit::characters, "characters"}, {TextUnit::bytes, "bytes"}});
}

// What each token means. It travels with a checkpoint in its notes.
class Vocabulary {
 public:
  // 256 tokens, the bytes themselves.
  static Vocabulary bytes();
  // The characters (code points) of a text, in rising order. Throws std::invalid_argument "[vocabulary] ..." unless the
  // text is valid UTF-8.
  static Vocabulary characters_of(const std::string& text);
  // What to_notes wrote; absent for a model of tasks or of token numbers.
  static std::optional<Vocabulary> from_notes(const CheckpointNotes& notes);

  std::int64_t size() const;
  TextUnit unit() const { return unit_; }
  // Throws std::invalid_argument "[vocabulary] ..." naming the first character that is not in the vocabulary and where
  // it stands.
  std::vector<std::int64_t> encode(const std::string& text) const;
  void to_notes(CheckpointNotes& notes) const;

 private:
  TextUnit unit_ = TextUnit::bytes;
  std::vector<char32_t> characters_;
};

// The whole file. Throws std::invalid_argument "[read_text] PATH: ..." for one that cannot be read or is empty.
std::string read_text(const std::string& path);

// The values of a .npy of integers in one dimension (or the rows of a matrix, one after another). Throws
// std::invalid_argument for what is not that, is empty or has negative numbers.
std::vector<std::int64_t> read_token_file(const std::string& path);

// Draws batches of texts with their targets.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual std::int64_t vocab_size() const = 0;
  // [batch, seq_len] each.
  virtual void draw(Generator& generator, std::int64_t batch, std::int64_t seq_len, std::span<std::int64_t> tokens,
                    std::span<std::int64_t> targets) const = 0;
  // Tells two sources apart: a task's word, or a checksum of the tokens.
  virtual std::string identity() const = 0;
};

// Stretches of seq_len + 1 tokens from anywhere in the text, each start equally likely; every next token is a target.
// Throws std::invalid_argument "[corpus] ..." when a stretch is longer than the text.
std::unique_ptr<BatchSource> text_source(std::vector<std::int64_t> tokens, std::int64_t vocab_size,
                                         std::int64_t seq_len);
std::unique_ptr<BatchSource> task_source(Task task);

}  // namespace poslab
