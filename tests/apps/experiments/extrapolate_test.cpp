#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "poslab/core/student.h"
#include "poslab/models/evaluate.h"
#include "poslab/models/tasks.h"
#include "poslab/models/trainer.h"
#include "run_experiment.h"
#include "scratch.h"

using namespace poslab;
using Integers = std::vector<std::int64_t>;
using Words = std::vector<std::string>;

namespace {

const Settings small = {{"seq_len", std::int64_t{16}},      {"steps", std::int64_t{12}},
                        {"batch_size", std::int64_t{4}},    {"d_model", std::int64_t{16}},
                        {"eval_tokens", std::int64_t{256}}, {"multiples", Integers{1, 2}}};

Settings with(Settings more) {
  more.insert(more.begin(), small.begin(), small.end());
  return more;
}

}  // namespace

TEST_CASE("a row is what training and evaluating by hand give, whatever the threads") {
  const auto ran = run_experiment("extrapolate", with({{"encodings", Words{"alibi"}}, {"seeds", Integers{7}}}), 2);
  TransformerConfig c;
  c.vocab_size = task_vocab_size(Task::passkey);
  c.d_model = 16;
  c.n_layers = c.n_heads = c.n_kv_heads = 2;
  c.head_dim = 8;
  c.d_ff = 64;
  c.max_position_embeddings = 16;
  c.rope = plain_rope(8);
  c.encoding = PositionEncoding("alibi");
  c.method.fire_length = 4;
  Transformer<float> model = new_model(c, 7);
  TrainOptions options;
  options.steps = 12;
  options.batch_size = 4;
  options.seq_len = 16;
  options.learning_rate = 5e-3;
  options.warmup = 1;
  options.seed = 7;
  const TrainResult trained =
      train(model, *task_source(Task::passkey), options, {}, std::nullopt, [](const TrainedStep&) {});
  EvaluationText text;
  text.tokens.resize(256);
  text.targets.resize(256);
  Generator generator(0x5eed);
  for (std::size_t i = 0; i < 256; i += 32) {
    draw_task(Task::passkey, generator, std::span(text.tokens).subspan(i, 32), std::span(text.targets).subspan(i, 32));
  }
  std::vector<double> nll;
  for (const ScoredToken& token : score_windows<float>(model, text, covering_chunks(256, 32), {})) {
    nll.push_back(token.nll);
  }
  REQUIRE(ran.report.rows.count == 2);
  CHECK(ran.row<std::int64_t>(1, "length") == 32);
  CHECK(ran.row<std::int64_t>(1, "tokens") == 8);
  CHECK(ran.row<double>(1, "mean_nll") == mean_loss(nll).mean_nll);
  // The last tenth of 12 steps is 2.
  CHECK(ran.row<double>(1, "train_loss") == (trained.history[10].loss + trained.history[11].loss) / 2);
  CHECK(ran.row_is_null(1, "low"));  // one seed has no spread
}

TEST_CASE("seeds make a mean with its interval, and encodings are compared seed by seed") {
  const auto ran =
      run_experiment("extrapolate", with({{"encodings", Words{"rope", "none"}}, {"seeds", Integers{1, 2, 3}}}));
  REQUIRE(ran.report.rows.count == 12);  // by encoding, seed, length
  const auto value = [&](std::int64_t encoding, std::int64_t seed) {
    return ran.row<double>(6 * encoding + 2 * seed + 1, "mean_nll");
  };
  std::vector<double> rope, none, apart;
  for (std::int64_t seed = 0; seed < 3; ++seed) {
    rope.push_back(value(0, seed));
    none.push_back(value(1, seed));
    apart.push_back(none.back() - rope.back());
  }
  CHECK(rope[0] != rope[1]);
  const auto of_none = confidence_interval(none), paired = confidence_interval(apart);
  CHECK(ran.row<std::string>(7, "encoding") == "none");
  CHECK(ran.row<double>(7, "mean") == of_none.mean);
  CHECK(ran.row<double>(7, "low") == *of_none.low);
  CHECK(ran.row<double>(7, "high") == *of_none.high);
  CHECK(ran.row<double>(7, "difference") == paired.mean);
  CHECK(ran.row<double>(7, "difference_high") == *paired.high);
  CHECK(ran.row_is_null(1, "difference"));
  CHECK(ran.summary<std::int64_t>("trained_models") == 6);
}

TEST_CASE("scalings are tried on RoPE alone, with and without further training") {
  const auto ran = run_experiment("extrapolate", with({{"encodings", Words{"learned", "rope"}},
                                                       {"seeds", Integers{1}},
                                                       {"extend_types", Words{"linear", "yarn"}},
                                                       {"extend_steps", Integers{0, 3}},
                                                       {"extend_multiple", std::int64_t{2}}}));
  REQUIRE(ran.report.rows.count == 2 + 2 + 4 * 2);
  CHECK(ran.row<std::string>(1, "note") == "refused: the learned table ends at 16");
  CHECK(ran.row_is_null(1, "mean_nll"));
  CHECK(ran.row_is_null(3, "scaling"));
  CHECK(ran.row<std::string>(4, "scaling") == "linear");
  CHECK(ran.row<std::int64_t>(4, "extra_steps") == 0);
  CHECK(ran.row<std::int64_t>(6, "extra_steps") == 3);
  CHECK(ran.row<double>(4, "mean_nll") != ran.row<double>(2, "mean_nll"));
  CHECK(ran.row<double>(6, "mean_nll") != ran.row<double>(4, "mean_nll"));
  CHECK_FALSE(ran.row_is_null(2, "train_loss"));
  CHECK(ran.row_is_null(4, "train_loss"));
  CHECK(ran.row<double>(6, "train_loss") != ran.row<double>(2, "train_loss"));
  CHECK(ran.row<std::string>(8, "scaling") == "yarn");
  CHECK(ran.summary<std::int64_t>("trained_models") == 4);
}

TEST_CASE("a text trains on its beginning and is asked about its last tenth") {
  const Scratch scratch;
  std::string text;
  for (int i = 0; i < 150; ++i) text += "abcdefgh";
  const Settings settings = with({{"text", scratch.file(text, "a.txt")},
                                  {"encodings", Words{"none"}},
                                  {"seeds", Integers{0}},
                                  {"eval_tokens", std::int64_t{1000}},
                                  {"steps", std::int64_t{60}}});
  const auto ran = run_experiment("extrapolate", settings);
  CHECK(ran.summary<std::int64_t>("vocab_size") == 8);
  CHECK(ran.row<std::int64_t>(0, "tokens") == 112);  // 119 predictions hold 7 windows of 16
  CHECK(ran.row<double>(0, "mean_nll") < 0.5);       // what follows each letter is certain
}

TEST_CASE("bad studies are named") {
  CHECK(refusal("extrapolate", {{"seeds", Integers{1, 1}}}) == "[extrapolate] seeds names a value twice.");
  CHECK(refusal("extrapolate", {{"encodings", Words{}}}) == "[extrapolate] encodings must not be empty.");
  CHECK(refusal("extrapolate", {{"multiples", Integers{0}}}) == "[extrapolate] multiples must be 1 .. 1024 but got 0.");
  CHECK(refusal("extrapolate", {{"d_model", std::int64_t{33}}}) ==
        "[extrapolate] d_model 33 is not divisible by n_heads 2.");
  CHECK(refusal("extrapolate", {{"extend_types", Words{"longrope"}}}) ==
        "[extrapolate] extend_types cannot be longrope; it has no factor to stretch by.");
}
