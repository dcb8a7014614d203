#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "golden.h"
#include "poslab/core/random.h"
#include "poslab/formats/npy.h"
#include "poslab/methods/sinusoidal.h"
#include "run_experiment.h"
#include "scratch.h"

using Reals = std::vector<double>;
using Integers = std::vector<std::int64_t>;
using Int = std::int64_t;

namespace {

Reals sum(const Reals& a, const Reals& b) {
  Reals out(a);
  for (std::size_t i = 0; i < b.size(); ++i) out[i] += b[i];
  return out;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string npy(const std::vector<Int>& shape, const Reals& values) {
  return poslab::npy_header(poslab::DType::f64, shape) +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
}

}  // namespace

TEST_CASE("embed: without flags the lesson's dog at two seats, to the last bit") {
  const auto lesson = golden("lesson_seats.json");
  const auto ran = run_experiment("embed");
  REQUIRE(ran.report.rows.count == 2);
  CHECK(ran.row<Int>(0, "position") == 1);
  CHECK(ran.row<Reals>(0, "values") == lesson["dog_at_1"].get<Reals>());
  CHECK(ran.row<Int>(1, "position") == 4);
  CHECK(ran.row<Reals>(1, "values") == lesson["dog_at_4"].get<Reals>());
  CHECK(ran.row<Reals>(1, "position_values") == lesson["pos4"].get<Reals>());
  CHECK(contains(ran.report.conclusion, "dog [0.3, 0.7] at position 1 becomes [0.4, 0.5]"));
  CHECK(contains(ran.report.conclusion, "[0.3, 0.7] at position 4 becomes [-0.2, 0.7]"));
}

TEST_CASE("embed: a literal token and position give one row") {
  const auto ran = run_experiment("embed", {{"token", Reals{0.3, 0.7}}, {"position_vector", Reals{0.1, -0.2}}});
  REQUIRE(ran.report.rows.count == 1);
  CHECK(ran.row<Reals>(0, "values") == golden("lesson_seats.json")["dog_at_1"].get<Reals>());
}

TEST_CASE("embed: sinusoidal vectors at given positions") {
  const Reals token{1, 2, 3, 4};
  const auto ran = run_experiment("embed", {{"token", token}, {"positions", Integers{0, 7, 7}}});
  REQUIRE(ran.report.rows.count == 3);
  Reals seat(4);
  poslab::SinusoidalTable(4).fill(7, seat);
  CHECK(ran.row<Reals>(0, "values") == Reals{1, 3, 3, 5});
  CHECK(ran.row<Reals>(1, "values") == sum(token, seat));
  CHECK(ran.row<Reals>(2, "values") == sum(token, seat));
}

TEST_CASE("embed: words draw one vector each, and a learned table is drawn after them") {
  const auto ran = run_experiment(
      "embed", {{"words", "the dog bit the man"}, {"encoding", "learned"}, {"d_model", Int{3}}, {"seed", Int{5}}});
  poslab::Generator generator(5);
  const Reals tokens = generator.normals(4 * 3), table = generator.normals(5 * 3, 0.02);
  const std::size_t word_of[] = {0, 1, 2, 0, 3};
  REQUIRE(ran.report.rows.count == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    const auto at = static_cast<Int>(i);
    const auto from = [](const Reals& all, std::size_t nth) {
      return Reals(all.begin() + static_cast<std::ptrdiff_t>(3 * nth),
                   all.begin() + static_cast<std::ptrdiff_t>(3 * nth + 3));
    };
    CHECK(ran.row<Reals>(at, "token_values") == from(tokens, word_of[i]));
    CHECK(ran.row<Reals>(at, "position_values") == from(table, i));
    CHECK(ran.row<Reals>(at, "values") == sum(from(tokens, word_of[i]), from(table, i)));
  }
  CHECK(ran.row<std::string>(3, "word") == "the");
  CHECK(ran.summary<Int>("learned_rows") == 1024);

  const auto none = run_experiment("embed", {{"words", "a b a"}, {"encoding", "none"}});
  CHECK(none.row<Reals>(0, "values") == none.row<Reals>(2, "values"));
  CHECK(none.row<Reals>(0, "values") == none.row<Reals>(0, "token_values"));
}

TEST_CASE("embed: a learned table ends, and says so with both numbers") {
  const std::string error = refusal("embed", {{"encoding", "learned"}, {"seq_len", Int{1500}}});
  CHECK(contains(error, "1500 tokens do not fit a learned table of 1024 rows"));
  CHECK(contains(error, "--overflow truncate"));
  CHECK(contains(refusal("embed", {{"encoding", "learned"}, {"positions", Integers{0, 1024}}}),
                 "position 1024 is past the end of a learned table of 1024 rows"));
  CHECK(refusal("embed", {{"encoding", "learned"}, {"positions", Integers{0, 1023}}}) == "");

  const auto cut = run_experiment("embed", {{"encoding", "learned"}, {"seq_len", Int{1500}}, {"overflow", "truncate"}});
  CHECK(cut.report.rows.count == 1024);
  CHECK(cut.summary<Int>("dropped_tokens") == 476);
  CHECK(contains(cut.report.conclusion, "476 tokens were cut off"));
  // What is left is what the shorter text would have been.
  const auto whole = run_experiment("embed", {{"encoding", "learned"}, {"seq_len", Int{1024}}});
  CHECK(cut.row<Reals>(1023, "values") == whole.row<Reals>(1023, "values"));
  const auto words = run_experiment(
      "embed",
      {{"encoding", "learned"}, {"words", "a b c d"}, {"max_position_embeddings", Int{2}}, {"overflow", "truncate"}});
  CHECK(words.report.rows.count == 2);
  CHECK(words.row<std::string>(1, "word") == "b");
  const auto nothing = run_experiment("embed", {{"encoding", "learned"},
                                                {"positions", Integers{5}},
                                                {"max_position_embeddings", Int{2}},
                                                {"overflow", "truncate"}});
  CHECK(nothing.report.rows.count == 0);
  CHECK(nothing.summary<Int>("dropped_tokens") == 1);
}

TEST_CASE("embed: a trained table from a file") {
  const Scratch scratch;
  const std::string path = scratch.file(npy({3, 2}, {1, 2, 3, 4, 5, 6}));
  const auto ran = run_experiment("embed", {{"token", Reals{10, 20}}, {"position_table", path}, {"seq_len", Int{3}}});
  CHECK(ran.row<Reals>(2, "values") == Reals{15, 26});
  CHECK(ran.summary<Int>("learned_rows") == 3);
  CHECK(contains(refusal("embed", {{"position_table", path}, {"seq_len", Int{4}}}), "4 tokens do not fit"));
  CHECK(contains(refusal("embed", {{"position_table", path}, {"max_position_embeddings", Int{4}}}), "has 3 rows"));
  CHECK(contains(refusal("embed", {{"position_table", path}, {"token", Reals{1, 2, 3}}}), "numbers to a vector"));
  CHECK(contains(refusal("embed", {{"position_table", path}, {"encoding", "none"}}), "does not go with"));
  CHECK(contains(refusal("embed", {{"position_table", scratch.file(npy({3}, {1, 2, 3}))}}), "rows and columns"));
}

TEST_CASE("embed: positions of left-padded text come from the mask") {
  const Scratch scratch;
  const std::string path = scratch.file(npy({3, 1}, {10, 20, 30}));
  const auto ran = run_experiment(
      "embed", {{"token", Reals{1}}, {"position_table", path}, {"attention_mask", Integers{0, 0, 1, 1, 1}}});
  const Reals expected{11, 11, 11, 21, 31};
  for (Int i = 0; i < 5; ++i) CHECK(ran.row<Reals>(i, "values")[0] == expected[static_cast<std::size_t>(i)]);
  CHECK(refusal("embed", {{"attention_mask", Integers{0, 2}}}) != "");
  CHECK(contains(refusal("embed", {{"attention_mask", Integers{0, 1}}, {"positions", Integers{0, 1}}}), "drop one"));
}

TEST_CASE("embed: what cannot be is refused") {
  CHECK(contains(refusal("embed", {{"positions", Integers{-1}}}), "positions must be 0 or more but got -1."));
  CHECK(contains(refusal("embed", {{"token", Reals{1, 2}}, {"position_vector", Reals{1, 2, 3}}}),
                 "position_vector has 3 numbers but the token has 2"));
  CHECK(refusal("embed", {{"token", Reals{1, 2}}, {"position_vector", Reals{}}}) != "");
  CHECK(refusal("embed", {{"token", Reals{}}}) != "");
  CHECK(refusal("embed", {{"token", Reals{}}, {"position_vector", Reals{1}}}) != "");
  CHECK(contains(refusal("embed", {{"position_vector", Reals{1, 2}}, {"encoding", "learned"}}), "drop one"));
  CHECK(contains(refusal("embed", {{"position_vector", Reals{1, 2}}, {"positions", Integers{1, 2}}}),
                 "position_vector gives 1 tokens but positions gives 2"));
  CHECK(
      contains(refusal("embed", {{"words", "a b"}, {"seq_len", Int{3}}}), "words gives 2 tokens but seq_len gives 3"));
  CHECK(refusal("embed", {{"words", " "}}) != "");
  CHECK(refusal("embed", {{"words", "a"}, {"token", Reals{1}}}) != "");
  CHECK(refusal("embed", {{"seq_len", Int{0}}}) != "");
  CHECK(contains(refusal("embed", {{"seq_len", INT64_MAX}}), "too many to hold"));
  CHECK(contains(refusal("embed", {{"d_model", INT64_MAX}}), "too many to hold"));
  CHECK(refusal("embed", {{"encoding", "learned"}, {"positions", Integers{INT64_MAX}}}) != "");
  CHECK(refusal("embed", {{"positions", Integers{}}}) != "");
  CHECK(refusal("embed", {{"encoding", "learned"}, {"max_position_embeddings", Int{0}}}) != "");
  CHECK(refusal("embed", {{"base", -1.0}, {"seq_len", Int{2}}}) != "");
}

TEST_CASE("embed: a method that adds no vectors says what it does instead, and where that shows") {
  CHECK(contains(refusal("embed", {{"encoding", "alibi"}}),
                 "[embed] alibi adds nothing to the input vectors: it takes a fixed slope"));
  CHECK(contains(refusal("embed", {{"encoding", "xpos"}}), "`poslab table --encoding xpos` shows it."));
}
