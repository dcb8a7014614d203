#include "poslab/models/evaluate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "poslab/rope/scalings.h"
#include "small_transformer.h"

using namespace poslab;

namespace {

TransformerConfig tiny(PositionEncoding encoding) { return small_transformer(13, encoding, 8); }

// Weights large enough that the predictions differ from each other.
Transformer<double> drawn(const TransformerConfig& config) {
  Generator generator(5);
  Transformer<double> model(config, generator);
  for (double& value : model.values()) value *= 10;
  return model;
}

std::vector<std::int64_t> drawn_text(std::int64_t n) {
  Generator generator(7);
  std::vector<std::int64_t> text;
  for (std::int64_t i = 0; i < n; ++i) text.push_back(generator.integer(0, 13));
  return text;
}

// -ln p of the last token of text [first, last], by the logits of a pass over the tokens before it.
double nll_alone(const Transformer<double>& model, const std::vector<std::int64_t>& text, std::int64_t first,
                 std::int64_t last) {
  const std::vector<std::int64_t> context(text.begin() + first, text.begin() + last);
  const std::vector<double> logits = model.logits(context, 1);
  const double* row = logits.data() + logits.size() - 13;
  double sum = 0;
  for (int i = 0; i < 13; ++i) sum += std::exp(row[i]);
  return std::log(sum) - row[text[static_cast<std::size_t>(last)]];
}

std::vector<std::int64_t> firsts(const std::vector<EvaluationWindow>& windows) {
  std::vector<std::int64_t> out;
  for (const auto& window : windows) out.push_back(window.first);
  return out;
}

std::string said(const auto& call) {
  try {
    call();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every window can start with one token") {
  const Transformer<double> model = drawn(tiny(PositionEncoding("rope")));
  EvaluationText text = next_tokens(drawn_text(13));
  const auto windows = evaluation_windows(EvaluationMode::chunks, text.size(), 4, 1);
  EvaluationText replaced = text;
  for (std::size_t first : {0U, 4U, 8U}) replaced.tokens[first] = 12;
  text.start = 12;
  const auto scored = score_windows<double>(model, text, windows, {});
  const auto expected = score_windows<double>(model, replaced, windows, {});
  REQUIRE(scored.size() == 12);
  for (std::size_t i = 0; i < scored.size(); ++i) CHECK(scored[i].nll == expected[i].nll);
}

TEST_CASE("windows: chunks stand side by side, the others overlap, and what the text does not fill is left out") {
  const auto chunks = evaluation_windows(EvaluationMode::chunks, 24, 8, 0);
  CHECK(firsts(chunks) == std::vector<std::int64_t>{0, 8, 16});
  CHECK(firsts(evaluation_windows(EvaluationMode::chunks, 23, 8, 0)) == std::vector<std::int64_t>{0, 8});
  CHECK(evaluation_windows(EvaluationMode::chunks, 7, 8, 0).empty());
  CHECK(evaluation_windows(EvaluationMode::chunks, 0, 8, 0).empty());

  const auto sliding = evaluation_windows(EvaluationMode::sliding, 15, 8, 3);
  CHECK(firsts(sliding) == std::vector<std::int64_t>{0, 3, 6});
  CHECK(sliding[0].scored_from == 0);
  CHECK(sliding[1].scored_from == 5);
  const auto last = evaluation_windows(EvaluationMode::last, 15, 8, 3);
  CHECK(firsts(last) == firsts(sliding));
  for (const auto& window : last) CHECK(window.scored_from == 5);

  const auto whole = covering_chunks(19, 8);
  CHECK(firsts(whole) == std::vector<std::int64_t>{0, 8, 16});
  CHECK(whole.back().length == 3);
  CHECK(covering_chunks(0, 8).empty());

  CHECK(said([] { evaluation_windows(EvaluationMode::sliding, 16, 8, 9); }) ==
        "[evaluate] stride must be 1 .. seq_len (8) but got 9.");
  CHECK(said([] { evaluation_windows(EvaluationMode::chunks, 16, 0, 1); }) ==
        "[evaluate] seq_len must be at least 1 but got 0.");
}

TEST_CASE("every prediction is scored once by chunks and by sliding windows, with the context that the mode says") {
  const auto model = drawn(tiny(PositionEncoding("rope")));
  const auto text = drawn_text(31);
  const EvaluationText asked = next_tokens(text);
  struct Case {
    EvaluationMode mode;
    std::int64_t stride;
  };
  for (const auto& [mode, stride] : {Case{EvaluationMode::chunks, 0}, Case{EvaluationMode::sliding, 5},
                                     Case{EvaluationMode::sliding, 10}, Case{EvaluationMode::last, 4}}) {
    CAPTURE(to_word(mode));
    CAPTURE(stride);
    const auto windows = evaluation_windows(mode, asked.size(), 10, stride);
    const auto scored = score_windows<double>(model, asked, windows, {});
    std::int64_t expected = mode == EvaluationMode::last ? 10 - stride : 0;
    for (const ScoredToken& token : scored) {
      CHECK(token.index == expected++);
      CHECK(token.nll == doctest::Approx(nll_alone(model, text, token.index - token.position, token.index + 1)));
      if (mode == EvaluationMode::last) CHECK(token.position >= 10 - stride);
    }
    CHECK(expected == windows.back().first + 10);
  }
}

TEST_CASE("chunks of several lengths run one after another, and threads change nothing") {
  const auto model = drawn(tiny(PositionEncoding("alibi")));
  const auto text = drawn_text(1500);
  const EvaluationText asked = next_tokens(text);
  const auto windows = covering_chunks(asked.size(), 7);
  double reported = 0;
  const auto scored = score_windows<double>(model, asked, windows, {}, [&](double share) { reported = share; });
  CHECK(reported == 1);
  REQUIRE(scored.size() == text.size() - 1);
  for (std::size_t i = 0; i < scored.size(); i += 97) {
    const auto index = static_cast<std::int64_t>(i);
    CHECK(scored[i].index == index);
    CHECK(scored[i].position == index % 7);
    CHECK(scored[i].nll == doctest::Approx(nll_alone(model, text, index - scored[i].position, index + 1)));
  }
  ForwardOptions two;
  two.threads = 2;
  const auto again = score_windows<double>(model, asked, windows, two);
  CHECK(std::equal(scored.begin(), scored.end(), again.begin(), again.end(),
                   [](const ScoredToken& a, const ScoredToken& b) { return a.nll == b.nll; }));
}

TEST_CASE("what is not asked is not scored, and the likeliest token is told") {
  const auto model = drawn(tiny(PositionEncoding("none")));
  EvaluationText text = next_tokens(drawn_text(17));
  for (std::size_t i = 0; i < 16; i += 2) text.targets[i] = no_target;
  const auto scored = score_windows<double>(model, text, covering_chunks(16, 8), {});
  REQUIRE(scored.size() == 8);
  const std::vector<double> logits = model.logits(text.tokens, 2);
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(scored[i].index == static_cast<std::int64_t>(2 * i + 1));
    const auto row = logits.begin() + 13 * scored[i].index;
    const auto target = text.targets[static_cast<std::size_t>(scored[i].index)];
    CHECK(scored[i].right == (*std::max_element(row, row + 13) == row[target]));
  }
}

TEST_CASE("edges make buckets, the last one up to the window's end") {
  const auto ranges = [](std::vector<std::int64_t> edges, std::int64_t seq_len) {
    std::vector<std::pair<std::int64_t, std::int64_t>> out;
    for (const auto& bucket : position_buckets(edges, seq_len)) out.push_back({bucket.first, bucket.last});
    return out;
  };
  using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;
  CHECK(ranges({0, 64, 128}, 256) == Ranges{{0, 63}, {64, 127}, {128, 255}});
  CHECK(ranges({0, 64, 128, 256}, 256) == Ranges{{0, 63}, {64, 127}, {128, 255}});  // the edge closes the last one
  CHECK(ranges({0, 64, 128, 256}, 100) == Ranges{{0, 63}, {64, 99}});
  CHECK(ranges({16}, 20) == Ranges{{16, 19}});
  CHECK(ranges({32}, 20) == Ranges{});
  CHECK(ranges(doubling_edges(512), 512) == Ranges{{0, 63}, {64, 127}, {128, 255}, {256, 511}});
  CHECK(ranges(doubling_edges(50), 50) == Ranges{{0, 49}});
  CHECK(said([&] { ranges({}, 8); }) == "[evaluate] buckets must name at least one edge.");
  CHECK(said([&] { ranges({0, 4, 4}, 8); }) == "[evaluate] the edges of buckets must ascend but 4 follows 4.");
  CHECK(said([&] { ranges({-1, 4}, 8); }) == "[evaluate] the edges of buckets must be 0 or more but got -1.");
}

TEST_CASE("mean and standard error in closed form") {
  std::vector<double> values(101);
  std::iota(values.begin(), values.end(), 0.0);
  const MeanLoss loss = mean_loss(values);
  CHECK(loss.tokens == 101);
  CHECK(loss.mean_nll == 50);
  // The variance of 0 .. n is n (n + 1) (n + 2) / 12 / n.
  CHECK(*loss.standard_error == doctest::Approx(std::sqrt(101.0 * 102 / 12 / 101)).epsilon(1e-14));
  CHECK_FALSE(mean_loss(std::vector<double>{3}).standard_error);
  CHECK(mean_loss({}).tokens == 0);
}

TEST_CASE("the trained length and the frequencies of before any stretching") {
  TransformerConfig c = tiny(PositionEncoding("rope"));
  c.max_position_embeddings = 64;
  c.rope.rope_type = yarn_scaling;
  c.rope.factor = 4;
  c.rope.original_max_position_embeddings = 16;
  CHECK(trained_length(c) == 16);
  const auto plain = rope_frequencies(plain_rope(8));
  CHECK(unscaled_frequencies(c)->inv_freq == plain.inv_freq);
  CHECK(unscaled_frequencies(c)->attention_factor == 1);
  c.rope.rope_type = proportional_scaling;
  c.rope.partial_rotary_factor = 0.5;
  CHECK(unscaled_frequencies(c)->inv_freq == std::vector<double>{1, plain.inv_freq[1], 0, 0});
  c.encoding = PositionEncoding("alibi");
  CHECK(trained_length(c) == 64);
  CHECK_FALSE(unscaled_frequencies(c));
}
