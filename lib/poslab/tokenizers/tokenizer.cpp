#include "poslab/tokenizers/tokenizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <queue>
#include <stdexcept>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "poslab/core/printable.h"
#include "poslab/formats/model_files.h"
#include "poslab/tokenizers/pre_tokenizer.h"

namespace poslab {
namespace {

// tokenizer.ggml.token_type.
enum class TokenType { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

constexpr std::string_view space_mark = "\xe2\x96\x81";  // U+2581, SentencePiece's space

// GPT-2's way to write bytes as printable characters: those that are printable in Latin-1 stand for themselves, the
// others follow from U+0100 on.
struct ByteAlphabet {
  std::array<std::string, 256> text;
  std::unordered_map<std::string, unsigned char> byte;

  ByteAlphabet() {
    unsigned next = 0x100;
    for (unsigned b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
      const unsigned c = printable ? b : next++;
      text[b] = c < 0x80 ? std::string(1, static_cast<char>(c))
                         : std::string{static_cast<char>(0xc0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3f))};
      byte[text[b]] = static_cast<unsigned char>(b);
    }
  }
};

const ByteAlphabet& byte_alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

// The byte that "<0x0A>" stands for; -1 where it is written otherwise.
int byte_of(std::string_view text) {
  unsigned char byte = 0;
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return -1;
  const char* digits = text.data() + 3;
  const auto [end, error] = std::from_chars(digits, digits + 2, byte, 16);
  return error == std::errc() && end == digits + 2 ? byte : -1;
}

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

struct Merge {
  double order = 0;  // lower goes first
  std::int64_t token = -1;
};

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

}  // namespace

struct Tokenizer::Vocabulary {
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
  // Tokens that are found in the text before anything is merged, by their first byte, longest first.
  std::array<std::vector<std::int64_t>, 256> user_defined, control;

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
  static std::int64_t match(const std::array<std::vector<std::int64_t>, 256>& tokens, const Vocabulary& v,
                            std::string_view rest) {
    for (std::int64_t token : tokens[static_cast<unsigned char>(rest.front())]) {
      if (rest.starts_with(v.text(token))) return token;
    }
    return -1;
  }

  void encode_bytes(std::string_view text, std::vector<std::int64_t>& out) const {
    const bool known =
        std::all_of(text.begin(), text.end(), [&](char c) { return bytes[static_cast<unsigned char>(c)] >= 0; });
    if (!known) {
      out.push_back(unknown);
      return;
    }
    for (char c : text) out.push_back(bytes[static_cast<unsigned char>(c)]);
  }

  void encode_sentencepiece(std::string_view plain, std::vector<std::int64_t>& out) const {
    std::string text;
    for (char c : plain) c == ' ' ? text.append(space_mark) : text.append(1, c);
    std::vector<std::string_view> words;
    const std::string_view whole = text;
    std::size_t begin = 0;
    // No token reaches over these places, so that a text is encoded word by word.
    for (std::size_t i = 1; i < whole.size(); ++i) {
      if (joins[static_cast<unsigned char>(whole[i - 1])] || !whole.substr(i).starts_with(space_mark)) continue;
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
      const std::int64_t token = match(user_defined, *this, rest);
      const std::size_t length = token >= 0 ? this->text(token).size() : utf8_length(rest);
      symbols.push_back({i, length, token >= 0 ? token : find(rest.substr(0, length))});
      i += length;
    }
    const auto apart = [&](const Symbol& s) { return s.token >= 0 && type(s.token) == TokenType::user_defined; };
    merge_symbols(symbols, [&](const Symbol& a, const Symbol& b) -> std::optional<Merge> {
      if (apart(a) || apart(b)) return std::nullopt;
      const std::int64_t token = find(text.substr(a.begin, a.length + b.length));
      if (token < 0 || type(token) != TokenType::normal) return std::nullopt;
      return Merge{-scores[static_cast<std::size_t>(token)], token};
    });
    for (const Symbol& s : symbols) {
      if (s.length == 0) continue;
      if (s.token >= 0 && (type(s.token) == TokenType::normal || type(s.token) == TokenType::user_defined)) {
        out.push_back(s.token);
      } else {
        encode_bytes(text.substr(s.begin, s.length), out);
      }
    }
  }

  void encode_word(std::string_view word, std::vector<std::int64_t>& out) const {
    if (pre == PreTokenizer::llama3) {
      std::string written;
      for (char c : word) written += byte_alphabet().text[static_cast<unsigned char>(c)];
      if (const std::int64_t whole = find(written); whole >= 0 && type(whole) == TokenType::normal) {
        out.push_back(whole);  // Llama 3's ignore_merges
        return;
      }
    }
    std::vector<Symbol> symbols;
    for (std::size_t i = 0; i < word.size(); ++i) {
      symbols.push_back({i, 1, bytes[static_cast<unsigned char>(word[i])]});
    }
    merge_symbols(symbols, [&](const Symbol& a, const Symbol& b) -> std::optional<Merge> {
      if (a.token < 0 || b.token < 0) return std::nullopt;
      const auto found = merges.find(pair(a.token, b.token));
      return found == merges.end() ? std::nullopt : std::optional(found->second);
    });
    for (const Symbol& s : symbols) {
      if (s.length > 0) out.push_back(s.token >= 0 ? s.token : unknown);
    }
  }

  void encode_bpe(std::string_view given, std::vector<std::int64_t>& out) const {
    const std::string text = composes ? composed(given) : std::string(given);
    std::vector<std::string_view> words;
    pre_tokenize(pre, text, words);
    encode_words(words, out, [this](std::string_view word, auto& tokens) { encode_word(word, tokens); });
  }
};

Tokenizer::Tokenizer(const GgufFile& file) {
  const auto fail = [&](const std::string& what) {
    throw std::invalid_argument(fmt::format("[tokenizer] {}: {}.", file.path(), what));
  };
  const auto model = file.text("tokenizer.ggml.model");
  if (!model) fail("holds no tokenizer (tokenizer.ggml.model)");
  auto v = std::make_unique<Vocabulary>();
  v->sentencepiece = *model == "llama";
  if (!v->sentencepiece && *model != "gpt2") {
    fail(fmt::format("has a tokenizer of kind {}; llama and gpt2 are read, scripts/encode_text.py serves others",
                     printable(*model)));
  }

  const auto texts = file.strings("tokenizer.ggml.tokens");
  if (texts.empty()) fail("tokenizer.ggml.tokens is empty");
  const std::size_t n = texts.size();
  if (n > std::numeric_limits<std::int32_t>::max()) fail("has too many tokens");
  v->texts.assign(texts.begin(), texts.end());
  const auto types = file.numbers("tokenizer.ggml.token_type");
  const auto scores = file.numbers("tokenizer.ggml.scores");
  if (!types.empty() && types.size() != n) fail(fmt::format("has {} token types for {} tokens", types.size(), n));
  if (v->sentencepiece && scores.size() != n) fail(fmt::format("has {} scores for {} tokens", scores.size(), n));
  for (double score : scores) {
    if (std::isnan(score)) fail("has a score that is no number");
  }
  v->scores = scores;
  v->types.assign(n, TokenType::normal);
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!(types[i] >= 1 && types[i] <= 6)) fail(fmt::format("token {} has the unknown type {}", i, types[i]));
    v->types[i] = static_cast<TokenType>(types[i]);
  }
  v->bytes.fill(-1);
  for (std::size_t i = 0; i < n; ++i) {
    const std::string& text = v->texts[i];
    const std::int64_t id = static_cast<std::int64_t>(i);
    v->ids.emplace(text, id);  // of equal texts the first serves
    if (v->types[i] == TokenType::byte) {
      const int byte = byte_of(text);
      if (byte < 0) fail(fmt::format("byte token {} is written {}, not <0x00>", i, printable(text)));
      v->bytes[static_cast<std::size_t>(byte)] = id;
    }
    if (text.empty()) continue;
    if (v->types[i] != TokenType::control) {
      for (std::size_t at = text.find(space_mark, 1); at != text.npos; at = text.find(space_mark, at + 1)) {
        v->joins[static_cast<unsigned char>(text[at - 1])] = true;
      }
    }
    const auto first = static_cast<unsigned char>(text.front());
    if (v->types[i] == TokenType::user_defined) v->user_defined[first].push_back(id);
    if (v->types[i] == TokenType::control || v->types[i] == TokenType::unknown) v->control[first].push_back(id);
  }
  for (auto* tokens : {&v->user_defined, &v->control}) {
    for (auto& list : *tokens) {
      std::stable_sort(list.begin(), list.end(),
                       [&](std::int64_t a, std::int64_t b) { return v->text(a).size() > v->text(b).size(); });
    }
  }

  const auto token_of = [&](std::string_view key) -> std::optional<std::int64_t> {
    const auto id = file.integer(key);
    if (id && (*id < 0 || *id >= static_cast<std::int64_t>(n)))
      fail(fmt::format("{} is {}, past the {} tokens", key, *id, n));
    return id;
  };
  v->space_prefix = file.boolean("tokenizer.ggml.add_space_prefix").value_or(v->sentencepiece);
  if (file.boolean("tokenizer.ggml.add_bos_token").value_or(v->sentencepiece)) {
    v->bos = token_of("tokenizer.ggml.bos_token_id");
  }
  v->unknown = token_of("tokenizer.ggml.unknown_token_id").value_or(v->sentencepiece ? 0 : -1);
  if (!v->sentencepiece) {
    const std::string_view name = file.text("tokenizer.ggml.pre").value_or("gpt-2");
    const auto pre = find_pre_tokenizer(name);
    if (!pre) {
      fail(fmt::format("cuts words in the way {}; {} are known, scripts/encode_text.py serves others", printable(name),
                       known_pre_tokenizers()));
    }
    v->pre = *pre;
    v->composes = name == "qwen2";
    for (unsigned b = 0; b < 256; ++b) {
      v->bytes[b] = v->find(byte_alphabet().text[b]);
      // SmolLM2 has none for some control characters.
      if (v->bytes[b] < 0 && v->unknown < 0) fail(fmt::format("has no token for the byte {:#04x}", b));
    }
    double rank = 0;
    for (std::string_view merge : file.strings("tokenizer.ggml.merges")) {
      // A space parts the two, and neither is empty or holds one (bytes are written otherwise).
      const std::size_t gap = merge.find(' ', 1);
      const std::string_view left = merge.substr(0, gap);
      const std::string_view right = gap == merge.npos ? std::string_view() : merge.substr(gap + 1);
      const std::int64_t a = v->find(left), b = v->find(right), both = v->find(std::string(left) + std::string(right));
      if (a < 0 || b < 0 || both < 0) fail(fmt::format("merge {:.0f} ('{}') names no tokens", rank, printable(merge)));
      v->merges.emplace(Vocabulary::pair(a, b), Merge{rank, both});
      ++rank;
    }
  }
  vocabulary_ = std::move(v);
}

Tokenizer::Tokenizer(std::unique_ptr<const Vocabulary> vocabulary, std::unique_ptr<const SentencepieceModel> model)
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
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) throw std::invalid_argument(fmt::format("[tokenizer] the text is no valid UTF-8 at byte {}.", i));
    i += length;
  }
  if (model_) return model_->encode(text);
  const Vocabulary& v = *vocabulary_;
  std::vector<std::int64_t> out;
  bool first = true;
  const auto encode_part = [&](std::string_view part) {
    if (part.empty()) return;
    if (v.sentencepiece) {
      v.encode_sentencepiece(first && v.space_prefix ? " " + std::string(part) : std::string(part), out);
    } else {
      v.encode_bpe(part, out);
    }
    first = false;
  };
  // SentencePiece keeps its user-defined tokens apart itself, after spaces were marked.
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    std::int64_t token = v.sentencepiece ? -1 : Vocabulary::match(v.user_defined, v, text.substr(i));
    if (token < 0 && parse_special) token = Vocabulary::match(v.control, v, text.substr(i));
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
  const Vocabulary& v = *vocabulary_;
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
          const std::size_t length = std::max<std::size_t>(utf8_length(std::string_view(text).substr(i)), 1);
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
