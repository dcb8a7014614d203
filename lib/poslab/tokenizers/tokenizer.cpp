#include "poslab/tokenizers/tokenizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <queue>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "poslab/core/utf8.h"
#include "poslab/formats/model_files.h"
#include "poslab/tokenizers/pre_tokenizer.h"
#include "poslab/tokenizers/vocabulary.h"

namespace poslab {
namespace {

// The normal form NFC of valid UTF-8.
std::string composed(std::string_view text) {
  const bool ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (ascii) return std::string(text);
  utf8proc_uint8_t* out = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &out, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (size < 0) throw std::runtime_error(fmt::format("[tokenizer] NFC: {}.", utf8proc_errmsg(size)));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(out, &std::free);
  return std::string(reinterpret_cast<const char*>(out), static_cast<std::size_t>(size));
}

// A run of bytes of the text that became one piece so far.
struct Symbol {
  std::size_t begin = 0, length = 0;  // length 0: merged into the one before
  std::int64_t token = -1;
  std::size_t previous = 0, next = 0;
};
constexpr std::size_t no_symbol = std::numeric_limits<std::size_t>::max();

// Merges neighbours, the best order first and the leftmost among equals, until none can be merged. candidate(a, b)
// gives a std::optional<Merge>.
template <class Candidate>
void merge_symbols(std::vector<Symbol>& symbols, Candidate candidate) {
  struct Waiting {
    Merge merge;
    std::size_t left, right, length;
    bool operator<(const Waiting& other) const {
      return merge.order != other.merge.order ? merge.order > other.merge.order : left > other.left;
    }
  };
  std::priority_queue<Waiting> waiting;
  const auto consider = [&](std::size_t left, std::size_t right) {
    if (left == no_symbol || right == no_symbol) return;
    if (const std::optional<Merge> merge = candidate(symbols[left], symbols[right])) {
      waiting.push({*merge, left, right, symbols[left].length + symbols[right].length});
    }
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = i == 0 ? no_symbol : i - 1;
    symbols[i].next = i + 1 < symbols.size() ? i + 1 : no_symbol;
    if (i > 0) consider(i - 1, i);
  }
  while (!waiting.empty()) {
    const Waiting best = waiting.top();
    waiting.pop();
    Symbol &left = symbols[best.left], &right = symbols[best.right];
    // Either may have been merged since.
    if (left.length == 0 || right.length == 0 || left.length + right.length != best.length) continue;
    left.length = best.length;
    left.token = best.merge.token;
    left.next = right.next;
    right.length = 0;
    if (left.next != no_symbol) symbols[left.next].previous = best.left;
    consider(left.previous, best.left);
    consider(best.left, left.next);
  }
}

// What a vocabulary makes of a text whose special tokens were cut out.
class Encoder {
 public:
  explicit Encoder(const TokenVocabulary& vocabulary) : v_(vocabulary) {}

  void encode_bytes(std::string_view text, std::vector<std::int64_t>& out) const {
    const bool known =
        std::all_of(text.begin(), text.end(), [&](char c) { return v_.bytes[static_cast<unsigned char>(c)] >= 0; });
    if (!known) {
      out.push_back(v_.unknown);
      return;
    }
    for (char c : text) out.push_back(v_.bytes[static_cast<unsigned char>(c)]);
  }

  void encode_sentencepiece(std::string_view plain, std::vector<std::int64_t>& out) const {
    std::string text;
    for (char c : plain) c == ' ' ? text.append(space_mark) : text.append(1, c);
    std::vector<std::string_view> words;
    const std::string_view whole = text;
    std::size_t begin = 0;
    // No token reaches over these places, so that a text is encoded word by word.
    for (std::size_t i = 1; i < whole.size(); ++i) {
      if (v_.joins[static_cast<unsigned char>(whole[i - 1])] || !whole.substr(i).starts_with(space_mark)) continue;
      words.push_back(whole.substr(begin, i - begin));
      begin = i;
    }
    words.push_back(whole.substr(begin));
    encode_words(words, out, [this](std::string_view word, auto& tokens) { encode_piece(word, tokens); });
  }

  // Words recur, and a known one costs a lookup.
  template <class Encode>
  static void encode_words(const std::vector<std::string_view>& words, std::vector<std::int64_t>& out, Encode encode) {
    std::unordered_map<std::string_view, std::vector<std::int64_t>> done;
    for (std::string_view word : words) {
      const auto [slot, fresh] = done.try_emplace(word);
      if (fresh) encode(word, slot->second);
      out.insert(out.end(), slot->second.begin(), slot->second.end());
    }
  }

  // SentencePiece's merges, within text whose spaces are marked.
  void encode_piece(std::string_view text, std::vector<std::int64_t>& out) const {
    std::vector<Symbol> symbols;
    for (std::size_t i = 0; i < text.size();) {
      const std::string_view rest = text.substr(i);
      const std::int64_t token = v_.match(v_.user_defined, rest);
      const std::size_t length = token >= 0 ? v_.text(token).size() : first_utf8(rest).length;
      symbols.push_back({i, length, token >= 0 ? token : v_.find(rest.substr(0, length))});
      i += length;
    }
    const auto apart = [&](const Symbol& s) { return s.token >= 0 && v_.type(s.token) == TokenType::user_defined; };
    merge_symbols(symbols, [&](const Symbol& a, const Symbol& b) -> std::optional<Merge> {
      if (apart(a) || apart(b)) return std::nullopt;
      const std::int64_t token = v_.find(text.substr(a.begin, a.length + b.length));
      if (token < 0 || v_.type(token) != TokenType::normal) return std::nullopt;
      return Merge{-v_.scores[static_cast<std::size_t>(token)], token};
    });
    for (const Symbol& s : symbols) {
      if (s.length == 0) continue;
      if (s.token >= 0 && (v_.type(s.token) == TokenType::normal || v_.type(s.token) == TokenType::user_defined)) {
        out.push_back(s.token);
      } else {
        encode_bytes(text.substr(s.begin, s.length), out);
      }
    }
  }

  void encode_word(std::string_view word, std::vector<std::int64_t>& out) const {
    if (v_.pre == PreTokenizer::llama_bpe) {
      std::string written;
      for (char c : word) written += byte_alphabet().text[static_cast<unsigned char>(c)];
      if (const std::int64_t whole = v_.find(written); whole >= 0 && v_.type(whole) == TokenType::normal) {
        out.push_back(whole);  // Llama 3's ignore_merges
        return;
      }
    }
    std::vector<Symbol> symbols;
    for (std::size_t i = 0; i < word.size(); ++i) {
      symbols.push_back({i, 1, v_.bytes[static_cast<unsigned char>(word[i])]});
    }
    merge_symbols(symbols, [&](const Symbol& a, const Symbol& b) -> std::optional<Merge> {
      if (a.token < 0 || b.token < 0) return std::nullopt;
      const auto found = v_.merges.find(TokenVocabulary::pair(a.token, b.token));
      return found == v_.merges.end() ? std::nullopt : std::optional(found->second);
    });
    for (const Symbol& s : symbols) {
      if (s.length > 0) out.push_back(s.token >= 0 ? s.token : v_.unknown);
    }
  }

  void encode_bpe(std::string_view given, std::vector<std::int64_t>& out) const {
    const std::string text = v_.composes ? composed(given) : std::string(given);
    std::vector<std::string_view> words;
    pre_tokenize(v_.pre, text, words);
    encode_words(words, out, [this](std::string_view word, auto& tokens) { encode_word(word, tokens); });
  }

 private:
  const TokenVocabulary& v_;
};
}  // namespace

Tokenizer::Tokenizer(const GgufFile& file)
    : vocabulary_(std::make_unique<const TokenVocabulary>(read_vocabulary(file))) {}

Tokenizer::Tokenizer(std::unique_ptr<const TokenVocabulary> vocabulary, std::unique_ptr<const SentencepieceModel> model)
    : vocabulary_(std::move(vocabulary)), model_(std::move(model)) {}

Tokenizer Tokenizer::from_sentencepiece(const std::string& path) {
  return Tokenizer(nullptr, std::make_unique<const SentencepieceModel>(path));
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

std::int64_t Tokenizer::size() const { return model_ ? model_->size() : std::ssize(vocabulary_->texts); }
std::optional<std::int64_t> Tokenizer::bos() const { return model_ ? model_->bos() : vocabulary_->bos; }

std::vector<std::int64_t> Tokenizer::encode(std::string_view text, bool parse_special) const {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = first_utf8(text.substr(i)).length;
    if (length == 0) throw std::invalid_argument(fmt::format("[tokenizer] the text is no valid UTF-8 at byte {}.", i));
    i += length;
  }
  if (model_) return model_->encode(text);
  const TokenVocabulary& v = *vocabulary_;
  const Encoder encoder(v);
  std::vector<std::int64_t> out;
  bool first = true;
  const auto encode_part = [&](std::string_view part) {
    if (part.empty()) return;
    if (v.sentencepiece) {
      encoder.encode_sentencepiece(first && v.space_prefix ? " " + std::string(part) : std::string(part), out);
    } else {
      encoder.encode_bpe(part, out);
    }
    first = false;
  };
  // SentencePiece keeps its user-defined tokens apart itself, after spaces were marked.
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    std::int64_t token = v.sentencepiece ? -1 : v.match(v.user_defined, text.substr(i));
    if (token < 0 && parse_special) token = v.match(v.control, text.substr(i));
    if (token < 0) {
      ++i;
      continue;
    }
    encode_part(text.substr(begin, i - begin));
    out.push_back(token);
    begin = i += v.text(token).size();
  }
  encode_part(text.substr(begin));
  return out;
}

std::string Tokenizer::decode(std::span<const std::int64_t> tokens) const {
  for (std::int64_t token : tokens) {
    if (token < 0 || token >= size()) {
      throw std::invalid_argument(fmt::format("[tokenizer] token {} is not 0 .. {}.", token, size() - 1));
    }
  }
  if (model_) return model_->decode(tokens);
  const TokenVocabulary& v = *vocabulary_;
  std::string out;
  for (std::int64_t token : tokens) {
    const std::string& text = v.text(token);
    switch (v.type(token)) {
      case TokenType::control:
      case TokenType::unknown:
        break;
      case TokenType::byte:
        out += static_cast<char>(byte_of(text));
        break;
      default:
        for (std::size_t i = 0; i < text.size();) {
          const std::size_t length = std::max<std::size_t>(first_utf8(std::string_view(text).substr(i)).length, 1);
          const std::string_view character = std::string_view(text).substr(i, length);
          const bool own = !v.sentencepiece && v.type(token) == TokenType::normal;
          if (v.sentencepiece && character == space_mark) {
            out += ' ';
          } else if (const auto byte = byte_alphabet().byte.find(std::string(character));
                     own && byte != byte_alphabet().byte.end()) {
            out += static_cast<char>(byte->second);
          } else {
            out += character;
          }
          i += length;
        }
    }
  }
  if (v.sentencepiece && v.space_prefix && out.starts_with(' ')) out.erase(0, 1);
  return out;
}

std::optional<Tokenizer> find_tokenizer(const std::string& model) {
  if (model.ends_with(".gguf")) return Tokenizer(GgufFile(model));
  const std::filesystem::path folder(model);
  for (const char* name : {"tokenizer.model", "spiece.model"}) {
    if (std::filesystem::exists(folder / name)) return Tokenizer::from_sentencepiece(folder / name);
  }
  const ModelFiles files = model_files(model);
  if (files.gguf.size() == 1) return Tokenizer(GgufFile(files.gguf[0]));
  return std::nullopt;
}

}  // namespace poslab
