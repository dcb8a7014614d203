#include "poslab/models/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <utility>

#include "poslab/core/fnv.h"
#include "poslab/core/utf8.h"
#include "poslab/formats/npy.h"

namespace poslab {
namespace {

constexpr const char* unit_note = "text_unit";
constexpr const char* characters_note = "characters";

void append_utf8(char32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  const int tail = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  out += static_cast<char>((tail == 1 ? 0xc0 : tail == 2 ? 0xe0 : 0xf0) | (c >> (6 * tail)));
  for (int i = tail - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((c >> (6 * i)) & 0x3f));
}

std::vector<char32_t> decode_utf8(std::string_view text) {
  std::vector<char32_t> out;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Character character = first_utf8(text.substr(i));
    if (character.length == 0) {
      throw std::invalid_argument(
          fmt::format("[vocabulary] the text is not valid UTF-8 at byte {}; use text_unit bytes.", i));
    }
    out.push_back(character.code);
    i += character.length;
  }
  return out;
}

class TextSource final : public BatchSource {
 public:
  TextSource(std::vector<std::int64_t> tokens, std::int64_t vocab_size)
      : tokens_(std::move(tokens)), vocab_size_(vocab_size) {}

  std::int64_t vocab_size() const override { return vocab_size_; }
  void draw(Generator& generator, std::int64_t batch, std::int64_t seq_len, std::span<std::int64_t> tokens,
            std::span<std::int64_t> targets) const override {
    for (std::int64_t i = 0; i < batch; ++i) {
      const auto from = tokens_.begin() + generator.integer(0, std::ssize(tokens_) - seq_len);
      std::copy_n(from, seq_len, tokens.begin() + i * seq_len);
      std::copy_n(from + 1, seq_len, targets.begin() + i * seq_len);
    }
  }
  std::string identity() const override {
    Fnv1a hash;
    for (std::int64_t token : tokens_) hash.add(static_cast<std::uint64_t>(token));
    return fmt::format("{} tokens {:016x}", tokens_.size(), hash.value());
  }

 private:
  std::vector<std::int64_t> tokens_;
  std::int64_t vocab_size_;
};

class TaskSource final : public BatchSource {
 public:
  explicit TaskSource(Task task) : task_(task) {}
  std::int64_t vocab_size() const override { return task_vocab_size(task_); }
  void draw(Generator& generator, std::int64_t batch, std::int64_t seq_len, std::span<std::int64_t> tokens,
            std::span<std::int64_t> targets) const override {
    for (std::int64_t i = 0; i < batch; ++i) {
      const auto first = static_cast<std::size_t>(i * seq_len), n = static_cast<std::size_t>(seq_len);
      draw_task(task_, generator, tokens.subspan(first, n), targets.subspan(first, n));
    }
  }
  std::string identity() const override { return std::string(to_word(task_)); }

 private:
  Task task_;
};

}  // namespace

Vocabulary Vocabulary::bytes() { return {}; }

Vocabulary Vocabulary::characters_of(const std::string& text) {
  const std::vector<char32_t> all = decode_utf8(text);
  const std::set<char32_t> distinct(all.begin(), all.end());
  Vocabulary vocabulary;
  vocabulary.unit_ = TextUnit::characters;
  vocabulary.characters_.assign(distinct.begin(), distinct.end());
  return vocabulary;
}

std::optional<Vocabulary> Vocabulary::from_notes(const CheckpointNotes& notes) {
  const auto unit = notes.find(unit_note);
  if (unit == notes.end()) return std::nullopt;
  if (from_word<TextUnit>(unit->second) == TextUnit::bytes) return bytes();
  const auto characters = notes.find(characters_note);
  return characters_of(characters == notes.end() ? std::string() : characters->second);
}

std::int64_t Vocabulary::size() const { return unit_ == TextUnit::bytes ? 256 : std::ssize(characters_); }

std::vector<std::int64_t> Vocabulary::encode(const std::string& text) const {
  std::vector<std::int64_t> tokens;
  if (unit_ == TextUnit::bytes) {
    for (char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  for (char32_t c : decode_utf8(text)) {
    const auto found = std::lower_bound(characters_.begin(), characters_.end(), c);
    if (found == characters_.end() || *found != c) {
      throw std::invalid_argument(
          fmt::format("[vocabulary] the text's character {} is U+{:04X}, which is not among the model's {} characters.",
                      tokens.size(), static_cast<std::uint32_t>(c), characters_.size()));
    }
    tokens.push_back(found - characters_.begin());
  }
  return tokens;
}

void Vocabulary::to_notes(CheckpointNotes& notes) const {
  notes[unit_note] = to_word(unit_);
  if (unit_ == TextUnit::bytes) return;
  std::string& all = notes[characters_note];
  all.clear();
  for (char32_t c : characters_) append_utf8(c, all);
}

std::string read_text(const std::string& path) {
  const auto fail = [&](const std::string& what) {
    throw std::invalid_argument(fmt::format("[read_text] {}: {}.", path, what));
  };
  if (std::filesystem::is_directory(path)) fail("is a folder");
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(std::strerror(errno));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  if (in.bad()) fail("cannot be read");
  if (text.empty()) fail("is empty");
  return text;
}

std::vector<std::int64_t> read_token_file(const std::string& path) {
  NpyArray<std::int64_t> array = read_npy_integers(path);
  if (array.values.empty()) throw std::invalid_argument(fmt::format("[read_tokens] {}: holds no token.", path));
  for (std::int64_t token : array.values) {
    if (token < 0) throw std::invalid_argument(fmt::format("[read_tokens] {}: token {} is negative.", path, token));
  }
  return std::move(array.values);
}

std::unique_ptr<BatchSource> text_source(std::vector<std::int64_t> tokens, std::int64_t vocab_size,
                                         std::int64_t seq_len) {
  if (std::ssize(tokens) <= seq_len) {
    throw std::invalid_argument(
        fmt::format("[corpus] a text of {} tokens is too short for seq_len {}: it needs one more than that.",
                    tokens.size(), seq_len));
  }
  return std::make_unique<TextSource>(std::move(tokens), vocab_size);
}

std::unique_ptr<BatchSource> task_source(Task task) { return std::make_unique<TaskSource>(task); }

}  // namespace poslab
