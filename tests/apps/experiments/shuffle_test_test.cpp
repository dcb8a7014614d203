#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "golden.h"
#include "poslab/methods/list.h"
#include "run_experiment.h"

using namespace poslab;

namespace {

struct Result : RanExperiment {
  double max_abs_diff() const { return summary<double>("max_abs_diff"); }
  bool equivariant() const { return summary<bool>("equivariant"); }
  std::string verdict() const { return summary<std::string>("verdict"); }
  // [2, seq_len, d_model], f64
  std::vector<double> outputs() const {
    const auto& shape = report.tensor.shape;
    std::vector<double> out(static_cast<std::size_t>(shape[0] * shape[1] * shape[2]));
    report.tensor.fill(0, 2, reinterpret_cast<std::byte*>(out.data()));
    return out;
  }
};

Result run(const Settings& settings = {}, int threads = 1) {
  return {run_experiment("shuffle-test", settings, threads)};
}

std::string refusal(const Settings& settings) { return ::refusal("shuffle-test", settings); }

std::vector<double> flattened(const nlohmann::json& rows) {
  std::vector<double> out;
  for (const auto& row : rows) out.insert(out.end(), row.begin(), row.end());
  return out;
}

void check_lesson(const Result& result, const nlohmann::json& of_permuted, const nlohmann::json& of_text,
                  const std::vector<std::size_t>& order) {
  std::vector<double> expected = flattened(of_permuted);
  for (std::size_t token : order) {
    const auto row = of_text[token].get<std::vector<double>>();
    expected.insert(expected.end(), row.begin(), row.end());
  }
  const auto mine = result.outputs();
  REQUIRE(mine.size() == expected.size());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    CHECK(std::abs(mine[i] - expected[i]) <= 1e-12 * std::max(1.0, std::abs(expected[i])));
  }
}

std::vector<std::int64_t> integers(std::initializer_list<std::int64_t> list) { return list; }

}  // namespace

TEST_CASE("shuffle-test: without parameters it is the lesson's test, to 1e-12") {
  const auto lesson = golden("lesson_shuffle.json");
  const auto order = lesson["order"].get<std::vector<std::size_t>>();
  const Result result = run();
  CHECK(result.equivariant());
  CHECK(result.verdict() == "equivariant");
  CHECK(result.max_abs_diff() < 1e-12);
  CHECK(result.summary_is_null("leaked_order"));
  check_lesson(result, lesson["attention_of_permuted"], lesson["attention"], order);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(result.row<std::int64_t>(static_cast<std::int64_t>(i), "token") == static_cast<std::int64_t>(order[i]));
  }
}

TEST_CASE("shuffle-test: the causal mask leaks order as in the lesson") {
  const auto lesson = golden("lesson_shuffle.json");
  const Result result = run({{"mask", "causal"}});
  CHECK(result.verdict() == "order-aware");
  CHECK(std::abs(result.max_abs_diff() - lesson["causal_max_abs_diff"].get<double>()) < 1e-11);
  CHECK(std::abs(result.max_abs_diff() - 10.2103) < 5e-5);
  check_lesson(result, lesson["causal_of_permuted"], lesson["causal_attention"],
               lesson["order"].get<std::vector<std::size_t>>());
  // Root mean squares over the golden arrays.
  const auto shuffled = flattened(lesson["causal_of_permuted"]);
  double squares = 0, size = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    const auto row = lesson["causal_attention"][lesson["order"][i].get<std::size_t>()].get<std::vector<double>>();
    for (std::size_t c = 0; c < 8; ++c) {
      squares += std::pow(shuffled[i * 8 + c] - row[c], 2);
      size += row[c] * row[c];
    }
  }
  CHECK(result.summary<double>("leaked_order") == doctest::Approx(std::sqrt(squares / size)));
}

TEST_CASE("shuffle-test: every encoding tells the order, none does not") {
  for (const std::string_view word : PositionEncoding::words()) {
    const std::string encoding(word);
    for (const char* dtype : {"f64", "f32"}) {
      const Result result = run({{"encoding", encoding},
                                 {"dtype", dtype},
                                 {"seq_len", std::int64_t{60}},
                                 {"d_model", std::int64_t{32}},
                                 {"n_heads", std::int64_t{4}},
                                 {"n_kv_heads", std::int64_t{2}}});
      CAPTURE(encoding);
      CAPTURE(dtype);
      CHECK(result.equivariant() == (encoding == "none"));
      CHECK(result.report.rows.count == 60);
    }
  }
}

TEST_CASE("shuffle-test: a word's output is the same wherever it stands, unless something tells its place") {
  const Settings lesson = {{"words", "the dog bit the man"}, {"order", integers({0, 4, 2, 3, 1})}};
  const Result bag = run(lesson);
  CHECK(bag.equivariant());
  CHECK(bag.summary<bool>("words_keep_output"));
  CHECK(bag.summary<double>("max_word_diff") < 1e-12);
  CHECK(bag.row<std::string>(1, "word") == "man");
  // In the text itself "the" stands at 0 and 3.
  const auto outputs = bag.outputs();
  for (std::size_t c = 0; c < 8; ++c) CHECK(std::abs(outputs[40 + c] - outputs[40 + 3 * 8 + c]) < 1e-12);
  CHECK(bag.report.conclusion.find("\"the\" has the same output wherever it stands") != std::string::npos);

  for (const Settings& more : {Settings{{"encoding", "rope"}}, Settings{{"encoding", "sinusoidal"}},
                               Settings{{"encoding", "alibi"}}, Settings{{"mask", "causal"}}}) {
    const Result result = run(with(lesson, more));
    CHECK_FALSE(result.summary<bool>("words_keep_output"));
    CHECK(result.summary<double>("max_word_diff") > 1e-3);
  }
}

TEST_CASE("shuffle-test: identical outputs for any number of threads, order drawn last") {
  const Settings settings = {
      {"seq_len", std::int64_t{300}}, {"d_model", std::int64_t{64}}, {"encoding", "t5"}, {"mask", "causal"}};
  const Result one = run(settings, 1);
  CHECK(run(settings, 2).outputs() == one.outputs());
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < 300; ++i) order.push_back(one.row<std::int64_t>(i, "token"));
  CHECK(run(with(settings, {{"order", order}})).outputs() == one.outputs());
  std::sort(order.begin(), order.end());
  for (std::int64_t i = 0; i < 300; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("shuffle-test: rtol and atol mean what they mean in numpy.allclose") {
  const double diff = run({{"mask", "causal"}}).max_abs_diff();
  CHECK(run({{"mask", "causal"}, {"rtol", 0.0}, {"atol", diff}}).equivariant());
  CHECK_FALSE(run({{"mask", "causal"}, {"rtol", 0.0}, {"atol", diff * 0.999}}).equivariant());
  CHECK(run({{"mask", "causal"}, {"rtol", 1e6}, {"atol", 0.0}}).equivariant());
}

TEST_CASE("shuffle-test: what cannot be is refused with a sentence") {
  CHECK(refusal({{"d_model", std::int64_t{9}}, {"n_heads", std::int64_t{2}}}) ==
        "[shuffle-test] d_model 9 is not divisible by n_heads 2.");
  CHECK(refusal({{"n_heads", std::int64_t{4}}, {"n_kv_heads", std::int64_t{3}}}) ==
        "[shuffle-test] n_heads 4 is not divisible by n_kv_heads 3.");
  CHECK(refusal({{"order", integers({0, 1, 2})}}) == "[shuffle-test] order has 3 places but the text 5 tokens.");
  CHECK(refusal({{"order", integers({0, 1, 2, 2, 4})}}) ==
        "[shuffle-test] order is no permutation: it names token 2 twice.");
  CHECK(refusal({{"order", integers({0, 1, 2, 3, 5})}}) == "[shuffle-test] order names token 5 but they are 0 .. 4.");
  CHECK(refusal({{"order", integers({0, 1, 2, 3, -1})}}) == "[shuffle-test] order names token -1 but they are 0 .. 4.");
  CHECK(refusal({{"words", "a b"}, {"seq_len", std::int64_t{3}}}) ==
        "[shuffle-test] seq_len is 3 but words has 2; leave seq_len out.");
  CHECK(refusal({{"words", "  "}}) == "[shuffle-test] words holds no word.");
  CHECK(refusal({{"encoding", "rope"}, {"rotary_dim", std::int64_t{3}}}) ==
        "[shuffle-test] rotary_dim must be even and 2 .. 8 (head_dim) but is 3.");
  CHECK(refusal({{"seq_len", std::int64_t{1} << 40}}).starts_with("[shuffle-test] seq_len must be 1 .. 16777216"));
  CHECK(refusal({{"atol", -1.0}}) == "[shuffle-test] atol must be 0 or more but got -1.");
}
