#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/experiment.h"
#include "poslab/core/random.h"
#include "poslab/formats/npy.h"
#include "poslab/methods/list.h"
#include "poslab/methods/positions.h"
#include "poslab/report/matrix_views.h"

namespace poslab {
namespace {

enum class Overflow { error, truncate };
constexpr auto words(Overflow) {
  return word_table<Overflow>({{Overflow::error, "error"}, {Overflow::truncate, "truncate"}});
}

// The lesson's example: the word "dog" at two seats.
const std::vector<double> dog{0.3, 0.7};
const std::vector<double> dog_seats{0.1, -0.2, -0.5, 0.0};
const std::vector<std::int64_t> dog_positions{1, 4};

constexpr std::int64_t drawn_width = 8;
constexpr std::int64_t default_learned_rows = 1024;
constexpr std::int64_t max_values = std::int64_t{1} << 25;  // of all tokens' vectors

struct Params {
  std::optional<std::vector<double>> token, position_vector;
  std::optional<std::vector<std::int64_t>> positions, attention_mask;
  std::optional<PositionEncoding> encoding;
  MethodParams method;
  std::optional<std::string> words;
  std::optional<std::int64_t> seq_len, d_model;
  std::int64_t seed = 0;
  std::optional<FilePath> position_table;
  std::optional<std::int64_t> max_position_embeddings;
  Overflow overflow = Overflow::error;

  static void fields(auto& self, auto&& field) {
    field("token", self.token,
          "the token's vector, the same at every position; absent: the lesson's dog 0.3,0.7, or drawn from seed where "
          "words, seq_len, d_model or position_table ask for more");
    field("position_vector", self.position_vector,
          "position vectors of the token's length, one after another, instead of an encoding; absent: the lesson's two "
          "where nothing else is given");
    field("positions", self.positions,
          "place of each token; absent: 0, 1, 2, ... for position_vector, words, seq_len or attention_mask, else 1,4",
          "tokens");
    field("attention_mask", self.attention_mask,
          "0 for padding, 1 for a token: positions count the tokens alone; absent: no padding");
    field("encoding", self.encoding, "absent: that of position_table, else the waves of the first transformer");
    field("words", self.words, "a text; each distinct word has one vector, drawn from seed");
    field("seq_len", self.seq_len, "tokens of the text; absent: as many as positions, words or the mask have",
          "tokens");
    field("d_model", self.d_model, "length of a vector; absent: the token's, else position_table's, else 8",
          "channels");
    MethodParams::fields(self.method, [&](std::string_view name, auto& value, auto... texts) {
      if (method_with_parameter(name)->acts_on(Place::input)) field(name, value, texts...);
    });
    field("seed", self.seed, "draws token vectors (normal), then a learned table (normal, standard deviation 0.02)");
    field("position_table", self.position_table, "a learned table, .npy of rows x columns; absent: drawn from seed");
    field("max_position_embeddings", self.max_position_embeddings,
          "rows of the learned table; absent: all of position_table, else 1024", "tokens");
    field("overflow", self.overflow, "what to do with tokens past the learned table's end");
  }
};

struct Summary {
  std::string formula;
  std::int64_t n_tokens = 0, n_values = 0;
  std::int64_t dropped_tokens = 0;
  std::optional<std::int64_t> learned_rows;

  static void fields(auto& self, auto&& field) {
    field("formula", self.formula, "what is added to a token's vector; p is the position");
    field("n_tokens", self.n_tokens, "tokens that got their vectors", "tokens");
    field("n_values", self.n_values, "numbers in a vector", "channels");
    field("dropped_tokens", self.dropped_tokens, "tokens cut off since the learned table ends before them", "tokens");
    field("learned_rows", self.learned_rows, "positions that the learned table has; null without one", "tokens");
  }
};

struct Row {
  std::int64_t position = 0;
  std::optional<std::string> word;
  std::vector<double> token_values, position_values, values;

  static void fields(auto& self, auto&& field) {
    field("position", self.position, "place in the text", "tokens");
    field("word", self.word, "the word that stands there");
    field("token_values", self.token_values, "the token's vector");
    field("position_values", self.position_values, "the position's vector");
    field("values", self.values, "their sum");
  }
};

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw std::invalid_argument("[embed] " + fmt::format(text, std::forward<Args>(args)...));
}

// A number that several parameters settle: the first one given wins, and the others must agree.
class Agreed {
 public:
  explicit Agreed(std::string_view what) : what_(what) {}
  void from(std::string_view name, std::int64_t value) {
    if (value_ && *value_ != value) {
      refuse("{} gives {} {} but {} gives {}.", name_, *value_, what_, name, value);
    }
    if (!value_) name_ = name;
    value_ = value;
  }
  const std::optional<std::int64_t>& value() const { return value_; }

 private:
  std::string_view what_, name_;
  std::optional<std::int64_t> value_;
};

// What was asked for, with every fallback filled in.
struct Setup {
  PositionEncoding encoding{none_method()};
  std::vector<double> literal;               // [n, d], or empty
  std::vector<std::string> text;             // the words, or empty
  std::vector<std::int64_t> positions;       // [n]
  std::optional<std::vector<double>> token;  // absent: drawn
  std::int64_t d = 0;
  std::optional<Tensor<double, 2>> file;
  std::optional<std::int64_t> learned_rows;
};

std::vector<std::string> split(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> out;
  for (std::string word; stream >> word;) out.push_back(word);
  if (out.empty()) refuse("words holds no word.");
  return out;
}

void set_positions(const Params& p, Setup& s) {
  Agreed n("tokens");
  if (!s.literal.empty()) n.from("position_vector", std::ssize(s.literal) / s.d);
  if (p.words) n.from("words", std::ssize(s.text));
  if (p.seq_len) n.from("seq_len", *p.seq_len);
  if (p.attention_mask) n.from("attention_mask", std::ssize(*p.attention_mask));
  if (p.positions) n.from("positions", std::ssize(*p.positions));
  if (p.positions && p.attention_mask) refuse("positions and attention_mask both say where tokens stand; drop one.");
  const std::int64_t count = n.value().value_or(std::ssize(dog_positions));
  if (count < 1) refuse("a text has at least 1 token but got {}.", count);
  if (count > max_values / s.d) {
    refuse("{} tokens of {} numbers are too many to hold; poslab table streams position vectors of any length.", count,
           s.d);
  }
  if (p.attention_mask) {
    s.positions = positions_from_mask(*p.attention_mask);
  } else if (p.positions) {
    s.positions = *p.positions;
  } else if (!n.value()) {
    s.positions = dog_positions;
  } else {
    for (std::int64_t i = 0; i < count; ++i) s.positions.push_back(i);
  }
  for (std::int64_t position : s.positions) {
    if (position < 0) refuse("positions must be 0 or more but got {}.", position);
  }
}

void set_literal(const Params& p, Setup& s) {
  if (p.encoding || p.position_table) refuse("position_vector stands in place of an encoding; drop one of them.");
  if (p.words) refuse("position_vector goes with token, not with words.");
  s.literal = *p.position_vector;
  s.token = p.token.value_or(dog);
  s.d = std::ssize(*s.token);
  if (s.d == 0) refuse("token has no numbers.");
  if (s.literal.empty() || std::ssize(s.literal) % s.d != 0) {
    refuse("position_vector has {} numbers but the token has {}: they are added one by one.", s.literal.size(), s.d);
  }
  if (p.d_model && *p.d_model != s.d) refuse("the token has {} numbers but d_model is {}.", s.d, *p.d_model);
}

void set_vectors(const Params& p, Setup& s) {
  s.encoding = p.encoding.value_or(PositionEncoding(p.position_table ? learned_method() : sinusoidal_method()));
  if (!s.encoding->places().empty() && !s.encoding->acts_on(Place::input)) {
    refuse("{} adds nothing to the input vectors: it {}; `{}` shows it.", to_word(s.encoding), s.encoding->sentence(),
           s.encoding->shown_by());
  }
  require_own_parameters("embed", *s.encoding, p.method);
  if (p.position_table && !s.encoding->learns_input()) {
    refuse("position_table is a learned table; it does not go with encoding {}.", to_word(s.encoding));
  }
  if (p.words && p.token) refuse("token and words both say what the tokens are; drop one.");
  if (p.words) s.text = split(*p.words);
  if (p.position_table) s.file = read_npy_matrix(*p.position_table);
  s.token = p.token;
  if (!p.token && !p.words && !p.seq_len && !p.d_model && !p.position_table) s.token = dog;
  Agreed d("numbers to a vector");
  if (s.token) d.from("token", std::ssize(*s.token));
  if (p.d_model) d.from("d_model", *p.d_model);
  if (s.file) d.from("position_table", extent(*s.file, 1));
  s.d = d.value().value_or(drawn_width);
  if (s.d < 1) refuse("a vector has at least 1 number but got {}.", s.d);
}

void set_learned_rows(const Params& p, Setup& s) {
  const std::int64_t held = s.file ? extent(*s.file, 0) : std::numeric_limits<std::int64_t>::max();
  s.learned_rows = p.max_position_embeddings.value_or(s.file ? held : default_learned_rows);
  if (*s.learned_rows < 1) refuse("max_position_embeddings must be at least 1 but got {}.", *s.learned_rows);
  if (*s.learned_rows > held) {
    refuse("max_position_embeddings is {} but {} has {} rows.", *s.learned_rows, *p.position_table, held);
  }
}

Setup resolve(const Params& p) {
  Params lesson = p;
  const bool nothing = !p.token && !p.position_vector && !p.positions && !p.attention_mask && !p.encoding && !p.words &&
                       !p.seq_len && !p.d_model && !p.position_table;
  if (nothing) {
    lesson.token = dog;
    lesson.position_vector = dog_seats;
    lesson.positions = dog_positions;
  }
  Setup s;
  if (lesson.position_vector) {
    set_literal(lesson, s);
  } else {
    set_vectors(lesson, s);
  }
  set_positions(lesson, s);
  if (s.encoding->learns_input()) set_learned_rows(lesson, s);
  return s;
}

// Drops, or refuses, the tokens that the learned table has no vector for.
std::int64_t cut(const Params& p, Setup& s) {
  if (!s.learned_rows) return 0;
  const auto past = [&](std::int64_t position) { return position >= *s.learned_rows; };
  if (p.overflow == Overflow::error) {
    const auto last = *std::max_element(s.positions.begin(), s.positions.end());
    if (p.positions && past(last)) {
      refuse(
          "position {} is past the end of a learned table of {} rows (max_position_embeddings): nothing was learned "
          "for it. Cut the text (--overflow truncate), or use a method that is computed for any position (see poslab "
          "list "
          "methods).",
          last, *s.learned_rows);
    }
    require_learned_positions(last + 1, *s.learned_rows);
    return 0;
  }
  std::int64_t dropped = 0;
  for (std::size_t i = s.positions.size(); i-- > 0;) {
    if (!past(s.positions[i])) continue;
    s.positions.erase(s.positions.begin() + static_cast<std::ptrdiff_t>(i));
    if (!s.text.empty()) s.text.erase(s.text.begin() + static_cast<std::ptrdiff_t>(i));
    ++dropped;
  }
  return dropped;
}

// The tokens' vectors and their positions', each computed when its row is asked for.
class Embedding {
 public:
  Embedding(const Params& p, Setup setup) : s_(std::move(setup)) {
    Generator generator(p.seed);
    if (s_.token) {
      vector_of_.assign(s_.positions.size(), 0);
      tokens_ = *s_.token;
    } else {
      std::map<std::string, std::size_t> known;
      for (std::size_t i = 0; i < s_.positions.size(); ++i) {
        vector_of_.push_back(s_.text.empty() ? i : known.emplace(s_.text[i], known.size()).first->second);
      }
      const auto vectors = s_.text.empty() ? std::ssize(s_.positions) : std::ssize(known);
      tokens_ = generator.normals(vectors * s_.d);
    }
    if (!s_.encoding->acts_on(Place::input) || s_.positions.empty()) return;
    // Rows are drawn in order, so those after the last one asked for need not be.
    const std::int64_t rows = s_.file ? extent(*s_.file, 0) : *std::ranges::max_element(s_.positions) + 1;
    const MethodModel model{p.method, s_.d, 1, s_.d, rows, true};
    s_.encoding->check(model);
    std::vector<double> learned;
    if (s_.file) learned.assign(s_.file->begin(), s_.file->end());
    if (!s_.file) learned = initial_values(*s_.encoding, model, generator);
    vectors_ = s_.encoding->input(model, std::move(learned));
  }

  std::int64_t size() const { return std::ssize(s_.positions); }
  std::int64_t d() const { return s_.d; }

  Row row(std::int64_t index) const {
    const auto i = static_cast<std::size_t>(index);
    const auto d = static_cast<std::size_t>(s_.d);
    const auto part = [d](const std::vector<double>& all, std::size_t nth) {
      return std::vector<double>(all.begin() + static_cast<std::ptrdiff_t>(nth * d),
                                 all.begin() + static_cast<std::ptrdiff_t>((nth + 1) * d));
    };
    Row row;
    row.position = s_.positions[i];
    if (!s_.text.empty()) row.word = s_.text[i];
    row.token_values = part(tokens_, vector_of_[i]);
    if (vectors_) {
      row.position_values.resize(d);
      vectors_->fill(row.position, row.position_values);
    } else if (!s_.literal.empty()) {
      row.position_values = part(s_.literal, i);
    }
    row.values = row.token_values;
    for (std::size_t c = 0; c < row.position_values.size(); ++c) row.values[c] += row.position_values[c];
    return row;
  }

 private:
  Setup s_;
  std::vector<double> tokens_;          // [distinct tokens, d]
  std::vector<std::size_t> vector_of_;  // [n]
  std::unique_ptr<const InputVectors> vectors_;
};

std::string formula(const Params& p, const Setup& s) {
  if (!s.literal.empty()) return "values = token + position_vector";
  const std::string vector = s.encoding->input_formula(p.method);
  return vector.empty() ? "values = token" : "values = token + " + vector;
}

std::string short_list(const std::vector<double>& values) {
  constexpr std::size_t shown = 4;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(values.size(), shown); ++i) texts.push_back(fmt::format("{:.4g}", values[i]));
  return fmt::format("[{}{}]", fmt::join(texts, ", "), values.size() > shown ? ", ..." : "");
}

std::string conclusion(const Embedding& embedding, const Summary& summary, std::string_view token, bool placed) {
  std::string text;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(embedding.size(), 3); ++i) {
    const Row row = embedding.row(i);
    text += fmt::format("{} {} at position {} becomes {}.\n", row.word.value_or(std::string(token)),
                        short_list(row.token_values), row.position, short_list(row.values));
  }
  if (summary.dropped_tokens > 0) {
    text += fmt::format("{} tokens were cut off: the learned table has {} rows and nothing beyond.\n",
                        summary.dropped_tokens, *summary.learned_rows);
  }
  text += placed ? "The position is in the sum: one word has another vector at each seat.\n"
                 : "Nothing is added: a word has the same vector wherever it stands.\n";
  return text;
}

TypedReport<Summary, Row> run(const Params& p, const RunContext& context) {
  Setup setup = resolve(p);
  TypedReport<Summary, Row> report;
  Summary& s = report.summary;
  s.dropped_tokens = cut(p, setup);
  s.learned_rows = setup.learned_rows;
  s.formula = formula(p, setup);
  const bool text = !setup.text.empty(), placed = !setup.literal.empty() || setup.encoding->acts_on(Place::input);
  const std::string_view token = !p.token && setup.token ? "dog" : "token";
  const auto embedding = std::make_shared<const Embedding>(p, std::move(setup));
  s.n_tokens = embedding->size();
  s.n_values = embedding->d();

  report.row_count = embedding->size();
  report.make_row = [embedding](std::int64_t i) { return embedding->row(i); };
  report.columns = {"position"};
  if (text) report.columns.push_back("word");
  report.columns.push_back("token_values");
  if (placed) report.columns.push_back("position_values");
  report.columns.push_back("values");

  const RowMatrix sums{embedding->size(), embedding->d(), [embedding](std::int64_t first, std::span<double> out) {
                         for (std::size_t at = 0; at < out.size(); at += static_cast<std::size_t>(embedding->d())) {
                           const Row row = embedding->row(first++);
                           std::copy(row.values.begin(), row.values.end(),
                                     out.begin() + static_cast<std::ptrdiff_t>(at));
                         }
                       }};
  report.tensor = stream_tensor(sums, DType::f64, context.threads);
  if (sums.rows >= 4) {
    Picture picture = sampled_heatmap(sums);
    picture.title = "token + position";
    picture.x_label = "token";
    picture.y_label = "channel";
    report.pictures.push_back(std::move(picture));
  }
  report.conclusion = conclusion(*embedding, s, token, placed);
  return report;
}

std::string excluded(const Record& record) {
  const auto p = from_record<Params>(record);
  if (p.encoding && !(*p.encoding)->places().empty() && !(*p.encoding)->acts_on(Place::input)) {
    return "it adds nothing to the input vectors";
  }
  if (p.encoding && p.position_vector) return "position_vector stands in place of an encoding";
  if (p.encoding && !(*p.encoding)->learns_input() && p.position_table) return "position_table is a learned table";
  return {};
}

Experiment describe_embed() {
  Experiment e = describe<Params, Summary, Row>(
      "embed", "What vector does a token enter the model with, once its position is added?",
      "poslab embed --token 0.3,0.7 --position-vector 0.1,-0.2", run);
  e.excluded = excluded;
  return e;
}

const Registrar registrar("embed", describe_embed);

}  // namespace
}  // namespace poslab
