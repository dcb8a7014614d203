#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "experiments/experiment.h"
#include "experiments/shuffle_test_fields.h"
#include "poslab/attention/attention.h"
#include "poslab/core/random.h"
#include "poslab/core/require.h"
#include "poslab/core/tensor.h"
#include "poslab/core/threads.h"
#include "poslab/kernels/blas.h"
#include "poslab/methods/list.h"
#include "poslab/rope/rope.h"

namespace poslab {
namespace {

using namespace shuffle_test_fields;

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument("[shuffle-test] " + sentence); }

// The parameters with every fallback filled in, and what stands at each place of the text.
struct Setup {
  Params p;
  std::int64_t seq_len = 0, n_kv_heads = 0, head_dim = 0, rotary_dim = 0;
  std::vector<std::string> text;        // the words, or empty
  std::vector<std::int64_t> vector_of;  // [seq_len] the row of X that each token has
  std::int64_t n_vectors = 0;

  // A text as long as this one is what it would have been trained on.
  MethodModel model() const { return {p.method, p.d_model, p.n_heads, head_dim, seq_len, p.mask == Mask::causal}; }
};

constexpr RequireWithin require_within{"shuffle-test"};

Setup set_up(const Params& p) {
  Setup s;
  s.p = p;
  if (p.words) {
    std::istringstream stream(*p.words);
    for (std::string word; stream >> word;) s.text.push_back(word);
    if (s.text.empty()) refuse("words holds no word.");
  }
  const auto n_words = static_cast<std::int64_t>(s.text.size());
  s.seq_len = p.seq_len.value_or(p.words ? n_words : 5);
  if (p.words && s.seq_len != n_words) {
    refuse(fmt::format("seq_len is {} but words has {}; leave seq_len out.", s.seq_len, n_words));
  }
  require_within("seq_len", s.seq_len, 1, 1 << 24);
  require_within("d_model", p.d_model, 1, 1 << 16);
  require_within("n_heads", p.n_heads, 1, p.d_model);
  s.n_kv_heads = p.n_kv_heads.value_or(p.n_heads);
  require_within("n_kv_heads", s.n_kv_heads, 1, p.n_heads);
  constexpr std::int64_t most_values = std::int64_t{1} << 28;
  if (s.seq_len * p.d_model > most_values) {
    refuse(fmt::format("seq_len {} x d_model {} is more than {} values.", s.seq_len, p.d_model, most_values));
  }
  if (p.d_model % p.n_heads != 0) {
    refuse(fmt::format("d_model {} is not divisible by n_heads {}.", p.d_model, p.n_heads));
  }
  if (p.n_heads % s.n_kv_heads != 0) {
    refuse(fmt::format("n_heads {} is not divisible by n_kv_heads {}.", p.n_heads, s.n_kv_heads));
  }
  s.head_dim = p.d_model / p.n_heads;
  s.rotary_dim = p.rotary_dim.value_or(s.head_dim);
  if (p.encoding->acts_on(Place::rotation) &&
      (s.rotary_dim < 2 || s.rotary_dim % 2 != 0 || s.rotary_dim > s.head_dim)) {
    refuse(fmt::format("rotary_dim must be even and 2 .. {} (head_dim) but is {}.", s.head_dim, s.rotary_dim));
  }
  require_own_parameters("shuffle-test", *p.encoding, p.method);
  p.encoding->check(s.model());
  if (!(p.rtol >= 0)) refuse(fmt::format("rtol must be 0 or more but got {}.", p.rtol));
  if (p.atol && !(*p.atol >= 0)) refuse(fmt::format("atol must be 0 or more but got {}.", *p.atol));

  std::map<std::string, std::int64_t> known;
  for (std::int64_t i = 0; i < s.seq_len; ++i) {
    s.vector_of.push_back(p.words ? known.emplace(s.text[i], std::ssize(known)).first->second : i);
  }
  s.n_vectors = p.words ? std::ssize(known) : s.seq_len;
  return s;
}

std::vector<std::int64_t> resolve_order(const Setup& s, Generator& generator) {
  if (!s.p.order) {
    if (s.seq_len == 5) return {3, 0, 4, 1, 2};
    return generator.permutation(s.seq_len);
  }
  const std::vector<std::int64_t>& order = *s.p.order;
  if (std::ssize(order) != s.seq_len) {
    refuse(fmt::format("order has {} places but the text {} tokens.", order.size(), s.seq_len));
  }
  std::vector<bool> seen(order.size());
  for (std::int64_t token : order) {
    if (token < 0 || token >= s.seq_len) {
      refuse(fmt::format("order names token {} but they are 0 .. {}.", token, s.seq_len - 1));
    }
    if (seen[token]) refuse(fmt::format("order is no permutation: it names token {} twice.", token));
    seen[token] = true;
  }
  return order;
}

// Calls work(0) .. work(n - 1) from several threads, in blocks.
void for_each_token(std::int64_t n, int threads, const std::function<void(std::int64_t)>& work) {
  constexpr std::int64_t block = 64;
  parallel_for((n + block - 1) / block, threads, [&](std::int64_t task) {
    for (std::int64_t i = task * block; i < std::min(n, (task + 1) * block); ++i) work(i);
  });
}

// One attention layer without output projection, as in the lesson, its weights drawn from the generator.
template <class T>
class Layer {
 public:
  Layer(const Setup& s, Generator& generator, int threads)
      : s_(s), kv_dim_(s.n_kv_heads * s.head_dim), threads_(threads) {
    const std::int64_t d = s.p.d_model;
    x_ = make_tensor<T>(s.n_vectors, d);
    draw(generator, x_.data(), s.n_vectors, d, d);
    // W_q, W_k and W_v side by side: one product serves all three.
    w_ = make_tensor<T>(d, qkv_dim());
    draw(generator, w_.data(), d, d, qkv_dim());
    draw(generator, w_.data() + d, d, kv_dim_, qkv_dim());
    draw(generator, w_.data() + d + kv_dim_, d, kv_dim_, qkv_dim());
    options_.visible = key_ranges(s.p.mask, s.seq_len, s.seq_len);
    const Method& method = *s.p.encoding;
    const std::vector<double> learned = initial_values(method, s.model(), generator);
    if (method.acts_on(Place::input)) added_ = method.input(s.model(), learned);
    if (method.acts_on(Place::score_bias)) options_.bias = method.bias(s.model(), learned);
    if (method.acts_on(Place::rotation)) {
      options_.rotation = {rope_inv_freq(s.rotary_dim, s.p.rope_theta), s.p.layout, 1, {}};
      if (PairGrowth growth = method.growth(s.model(), s.rotary_dim / 2)) {
        // Counted from the middle of the text, as in a model: the factors stay near 1.
        options_.rotation->growth = [growth, middle = static_cast<double>(s.seq_len / 2)](double position) {
          return growth(position - middle);
        };
      }
    }
    if (!added_) projected_ = project(x_);
  }

  // The output [seq_len, d_model] of the text with token order[i] at place i.
  Tensor<T, 2> attend(const std::vector<std::int64_t>& order) const {
    const std::int64_t n = s_.seq_len, d = s_.p.d_model;
    const Tensor<T, 2> qkv = added_ ? project(seated(order)) : gathered(order);
    Tensor<T, 2> out = make_tensor<T>(n, d);
    const auto part = [&](std::int64_t column) {
      return HeadView<const T>{qkv.data() + column, s_.head_dim, qkv_dim()};
    };
    attention<T>({s_.p.n_heads, s_.n_kv_heads, n, n, s_.head_dim}, options_, part(0), part(d), part(d + kv_dim_),
                 {out.data(), s_.head_dim, d}, threads_);
    return out;
  }

 private:
  std::int64_t qkv_dim() const { return s_.p.d_model + 2 * kv_dim_; }

  static void draw(Generator& generator, T* to, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
    std::vector<double> drawn(columns);
    for (std::int64_t i = 0; i < rows; ++i) {
      generator.standard_normal(drawn);
      std::transform(drawn.begin(), drawn.end(), to + i * stride, [](double x) { return static_cast<T>(x); });
    }
  }

  // Query, key and value of each row of `input`, side by side.
  Tensor<T, 2> project(const Tensor<T, 2>& input) const {
    const auto n = static_cast<std::int64_t>(input.shape(0));
    Tensor<T, 2> qkv = make_tensor<T>(n, qkv_dim());
    parallel_gemm(Transpose::no, Transpose::no, n, qkv_dim(), s_.p.d_model, 1, input.data(), s_.p.d_model, w_.data(),
                  qkv_dim(), 0, qkv.data(), qkv_dim(), threads_);
    return qkv;
  }

  // A projection sees one token at a time: where nothing is added to the tokens, both texts share it.
  Tensor<T, 2> gathered(const std::vector<std::int64_t>& order) const {
    Tensor<T, 2> qkv = make_tensor<T>(s_.seq_len, qkv_dim());
    for_each_token(s_.seq_len, threads_, [&](std::int64_t i) {
      std::copy_n(projected_.data() + s_.vector_of[order[i]] * qkv_dim(), qkv_dim(), qkv.data() + i * qkv_dim());
    });
    return qkv;
  }

  // The tokens' vectors with their positions' added.
  Tensor<T, 2> seated(const std::vector<std::int64_t>& order) const {
    const std::int64_t d = s_.p.d_model;
    Tensor<T, 2> input = make_tensor<T>(s_.seq_len, d);
    std::vector<double> seat(d);
    for (std::int64_t i = 0; i < s_.seq_len; ++i) {
      added_->fill(i, seat);
      const T* from = x_.data() + s_.vector_of[order[i]] * d;
      for (std::int64_t c = 0; c < d; ++c) input.data()[i * d + c] = from[c] + static_cast<T>(seat[c]);
    }
    return input;
  }

  const Setup& s_;
  const std::int64_t kv_dim_;
  const int threads_;
  Tensor<T, 2> x_, w_, projected_;
  AttentionOptions options_;
  std::unique_ptr<const InputVectors> added_;
};

// Largest difference between two rows of `d` values, and whether a is close to b in numpy.allclose's sense.
struct Difference {
  double max = 0;
  bool same = true;
  double squares = 0, squares_of_b = 0;  // sums over the row of (a - b)^2 and b^2
};

struct Tolerance {
  double relative, absolute;
};

// numpy's tolerances; where f32 is summed in another order, small channels carry the rounding of the large ones.
template <class T>
Tolerance tolerance(const Params& p, const Tensor<T, 2>& output) {
  if (p.atol) return {p.rtol, *p.atol};
  if (p.dtype == Precision::f64) return {p.rtol, 1e-8};
  double largest = 0;
  for (T x : flat(output)) largest = std::max(largest, std::abs(static_cast<double>(x)));
  return {p.rtol, 1e-5 * largest};
}

template <class T>
Difference compare(std::int64_t d_model, Tolerance tolerance, const T* a, const T* b) {
  Difference result;
  for (std::int64_t c = 0; c < d_model; ++c) {
    const double expected = static_cast<double>(b[c]);
    const double difference = std::abs(static_cast<double>(a[c]) - expected);
    result.max = std::max(result.max, difference);
    result.same = result.same && difference <= tolerance.absolute + tolerance.relative * std::abs(expected);
    result.squares += difference * difference;
    result.squares_of_b += expected * expected;
  }
  return result;
}

// Both outputs as one tensor [2, seq_len, d_model]: attention(X[order]), attention(X)[order].
template <class T>
TensorSource outputs_tensor(Tensor<T, 2> shuffled, Tensor<T, 2> plain, std::vector<std::int64_t> order) {
  const auto d = static_cast<std::int64_t>(plain.shape(1));
  const auto n = std::ssize(order);
  const auto held =
      std::make_shared<const std::pair<Tensor<T, 2>, Tensor<T, 2>>>(std::move(shuffled), std::move(plain));
  TensorSource source;
  source.dtype = sizeof(T) == 8 ? DType::f64 : DType::f32;
  source.shape = {2, n, d};
  source.fill = [=, order = std::move(order)](std::int64_t first, std::int64_t count, std::byte* out) {
    const std::size_t row_bytes = static_cast<std::size_t>(d) * sizeof(T);
    for (std::int64_t part = first; part < first + count; ++part) {
      for (std::int64_t i = 0; i < n; ++i, out += row_bytes) {
        const T* row = part == 0 ? held->first.data() + i * d : held->second.data() + order[i] * d;
        std::memcpy(out, row, row_bytes);
      }
    }
  };
  return source;
}

std::string words_conclusion(const Setup& s, const std::vector<Row>& rows) {
  std::map<std::string, double> worst;
  for (const Row& row : rows) worst[*row.word] = std::max(worst[*row.word], *row.word_diff);
  std::string text;
  std::vector<std::string> told;
  for (const Row& row : rows) {
    if (std::find(told.begin(), told.end(), *row.word) != told.end()) continue;
    told.push_back(*row.word);
    if (told.size() > 8) return text + fmt::format("... and {} more words.\n", s.n_vectors - 8);
    const bool same = std::all_of(rows.begin(), rows.end(),
                                  [&](const Row& other) { return other.word != row.word || *other.word_same; });
    text += same ? fmt::format("\"{}\" has the same output wherever it stands, in both texts.\n", *row.word)
                 : fmt::format("\"{}\" has outputs that differ by up to {:.4g}.\n", *row.word, worst[*row.word]);
  }
  return text;
}

std::string conclusion(const Setup& s, const Summary& summary, const std::vector<Row>& rows) {
  std::string text;
  if (s.p.words) {
    std::string shuffled;
    for (const Row& row : rows) shuffled += (shuffled.empty() ? "" : " ") + *row.word;
    constexpr std::size_t most_shown = 200;
    if (shuffled.size() <= most_shown) text += fmt::format("Shuffled text: {}\n", shuffled);
    text += words_conclusion(s, rows);
  }
  const bool none = s.p.encoding->places().empty();
  if (summary.equivariant) {
    text += fmt::format("Shuffled input gives the shuffled output (largest difference {:.1e}, which is rounding).\n",
                        summary.max_abs_diff);
    return text +
           (none && s.p.mask == Mask::none
                ? "Attention alone does not see the order of words: without an encoding a text is a bag of words."
                : "Nothing here told the tokens their places strongly enough to pass rtol and atol.");
  }
  text += fmt::format("Shuffled input gives another output: it differs by up to {:.4f}, most for token {}.\n",
                      summary.max_abs_diff, summary.worst_token);
  if (none && s.p.mask == Mask::causal) {
    return text + fmt::format(
                      "The causal mask leaks order, since each token sees another set of earlier ones: the "
                      "outputs move by {:.0f} percent of their size.\nNo token is told its place, though.",
                      100 * *summary.leaked_order);
  }
  if (none) return text + "Without encoding and mask only rounding differs: allow for it with rtol and atol.";
  return text + fmt::format("The {} encoding tells attention where each token stands{}.", to_word(s.p.encoding),
                            s.p.mask == Mask::causal ? ", and the causal mask leaks some order too" : "");
}

template <class T>
TypedReport<Summary, Row> run_as(const Setup& s, const RunContext& context) {
  const Params& p = s.p;
  Generator generator(p.seed);
  const Layer<T> layer(s, generator, context.threads);
  const std::vector<std::int64_t> order = resolve_order(s, generator);
  std::vector<std::int64_t> in_order(order.size());
  std::iota(in_order.begin(), in_order.end(), 0);
  Tensor<T, 2> plain = layer.attend(in_order);
  context.progress(0.5);
  Tensor<T, 2> shuffled = layer.attend(order);

  TypedReport<Summary, Row> report;
  Summary& summary = report.summary;
  summary.resolved_seq_len = s.seq_len;
  summary.resolved_n_kv_heads = s.n_kv_heads;
  const Tolerance allowed = tolerance(p, plain);
  summary.resolved_atol = allowed.absolute;
  summary.equivariant = true;
  std::map<std::int64_t, std::int64_t> first_place;  // of each vector in the text
  for (std::int64_t i = s.seq_len - 1; i >= 0; --i) first_place[s.vector_of[i]] = i;
  std::vector<Difference> differences(order.size());
  report.rows.resize(order.size());
  for_each_token(s.seq_len, context.threads, [&](std::int64_t i) {
    const T* mine = shuffled.data() + i * p.d_model;
    const T* expected = plain.data() + order[i] * p.d_model;
    const Difference difference = differences[i] = compare(p.d_model, allowed, mine, expected);
    Row& row =
        report.rows[i] = {i, order[i], std::nullopt, difference.max, difference.same, std::nullopt, std::nullopt};
    if (!p.words) return;
    const T* first = plain.data() + first_place.at(s.vector_of[order[i]]) * p.d_model;
    const Difference in_text = compare(p.d_model, allowed, expected, first);
    const Difference in_shuffled = compare(p.d_model, allowed, mine, first);
    row.word = s.text[order[i]];
    row.word_diff = std::max(in_text.max, in_shuffled.max);
    row.word_same = in_text.same && in_shuffled.same;
  });
  double squares = 0, output_squares = 0;
  for (std::int64_t i = 0; i < s.seq_len; ++i) {
    const Row& row = report.rows[i];
    if (i == 0 || row.diff > summary.max_abs_diff) {
      summary.max_abs_diff = row.diff;
      summary.worst_token = order[i];
    }
    summary.equivariant = summary.equivariant && row.same;
    squares += differences[i].squares;
    output_squares += differences[i].squares_of_b;
    if (p.words) {
      summary.words_keep_output = summary.words_keep_output.value_or(true) && *row.word_same;
      summary.max_word_diff = std::max(summary.max_word_diff.value_or(0), *row.word_diff);
    }
  }
  summary.verdict = summary.equivariant ? Verdict::equivariant : Verdict::order_aware;
  if (p.mask == Mask::causal && p.encoding->places().empty()) {
    summary.leaked_order = output_squares > 0 ? std::sqrt(squares / output_squares) : 0;
  }
  report.columns = {"position", "token", "max_abs_diff", "same"};
  if (p.words) report.columns = {"position", "token", "word", "max_abs_diff", "same", "word_diff", "word_same"};
  report.conclusion = conclusion(s, summary, report.rows);
  constexpr std::int64_t most_bars = 64;
  if (!summary.equivariant && s.seq_len <= most_bars) {
    Picture picture;
    picture.kind = PictureKind::bars;
    picture.title = "how far each token's output moved";
    picture.x_label = "place in the shuffled text (tokens)";
    picture.y_label = "largest difference";
    picture.series = {{"max_abs_diff", {}, {}}};
    for (const Row& row : report.rows) picture.series[0].y.push_back(row.diff);
    report.pictures.push_back(std::move(picture));
  }
  report.tensor = outputs_tensor(std::move(shuffled), std::move(plain), order);
  return report;
}

TypedReport<Summary, Row> run(const Params& p, const RunContext& context) {
  const Setup setup = set_up(p);
  return p.dtype == Precision::f64 ? run_as<double>(setup, context) : run_as<float>(setup, context);
}

Experiment describe_shuffle_test() {
  Experiment e =
      describe<Params, Summary, Row>("shuffle-test", "Does attention notice the order of its tokens?",
                                     "poslab shuffle-test --words \"the dog bit the man\" --order 0,4,2,3,1", run);
  e.verdicts = {"equivariant", "order-aware"};
  return e;
}

const Registrar registrar("shuffle-test", describe_shuffle_test);

}  // namespace
}  // namespace poslab
