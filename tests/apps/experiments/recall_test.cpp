#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "poslab/models/checkpoint.h"
#include "poslab/models/tasks.h"
#include "poslab/models/trainer.h"
#include "run_experiment.h"
#include "scratch.h"
#include "small_transformer.h"

using namespace poslab;
using Integers = std::vector<std::int64_t>;

namespace {

TransformerConfig config_for(Task task, PositionEncoding encoding) {
  return small_transformer(task_vocab_size(task), encoding, 32, 32);
}

}  // namespace

TEST_CASE("the model trained on the spot finds the key within its length, for every distance") {
  const auto ran = run_experiment("recall", {{"seq_len", Integers{32, 64}}, {"n_trials", std::int64_t{32}}}, 2);
  CHECK(ran.summary<std::string>("resolved_task") == "passkey");
  CHECK(ran.summary<double>("chance") == 1.0 / 16);
  CHECK(ran.summary<double>("accuracy_within") > 0.9);
  REQUIRE(ran.report.rows.count == 11);  // 2, 4, 8, 16, 30; then 2, 4, ..., 32, 62
  CHECK(ran.row<std::int64_t>(4, "distance") == 30);
  CHECK(ran.row<std::int64_t>(5, "length") == 64);
  CHECK(ran.row<std::int64_t>(10, "distance") == 62);
  CHECK(ran.row<std::int64_t>(0, "trials") == 32);
  double sum = 0;
  for (std::int64_t i = 0; i < 5; ++i) sum += ran.row<double>(i, "accuracy");
  CHECK(ran.summary<double>("accuracy_within") == doctest::Approx(sum / 5));
  CHECK(ran.row<double>(0, "perplexity") == doctest::Approx(std::exp(ran.row<double>(0, "mean_nll"))));
}

TEST_CASE("a window of attention shorter than the distance leaves a guess") {
  const auto ran = run_experiment("recall", {{"seq_len", Integers{32}},
                                             {"distances", Integers{4, 24, 40}},
                                             {"n_trials", std::int64_t{64}},
                                             {"attention_window", std::int64_t{8}}});
  REQUIRE(ran.report.rows.count == 2);  // 40 does not fit in 32 tokens
  CHECK(ran.row<double>(0, "accuracy") > 0.9);
  // Two layers reach back 14 tokens.
  CHECK(ran.row<double>(1, "accuracy") < 0.3);
}

TEST_CASE("a checkpoint says its task; untrained, it guesses, and a learned table ends") {
  const Scratch scratch;
  const std::string folder = scratch.path("model");
  CheckpointFolder(folder).save<float>(new_model(config_for(Task::induction, PositionEncoding("learned")), 1),
                                       {{"task", "induction"}}, nullptr);
  const auto ran = run_experiment("recall", {{"model", folder}, {"n_trials", std::int64_t{256}}});
  CHECK(ran.summary<std::string>("resolved_task") == "induction");
  CHECK(ran.row<double>(0, "accuracy") < 0.15);
  CHECK(ran.row<double>(0, "mean_nll") == doctest::Approx(std::log(32)).epsilon(0.05));
  const std::int64_t last = ran.report.rows.count - 1;
  CHECK(ran.row<std::string>(last, "note") == "refused: the learned table ends at 32");
  CHECK(ran.row_is_null(last, "accuracy"));
  CHECK(refusal("recall", {{"model", folder}, {"task", std::string("passkey")}}) ==
        "[recall] task passkey has 25 tokens but the model 32.");
  CHECK(refusal("recall", {{"task", std::string("copy")}}) ==
        "[recall] task must be passkey or induction but is copy.");
  // More tokens than 64 bits count.
  CHECK(refusal("recall", {{"seq_len", std::vector<std::int64_t>{std::int64_t{1} << 62}}}) ==
        "[recall] seq_len must be 8 .. 1073741824 but got 4611686018427387904.");
  CHECK(refusal("recall", {{"seq_len", std::vector<std::int64_t>{16}}, {"distances", std::vector<std::int64_t>{15}}}) ==
        "[recall] no distance fits: a text of 16 tokens has distances up to 14.");
  CHECK(refusal("recall", {{"n_trials", std::int64_t{0}}}) == "[recall] n_trials must be 1 .. 1048576 but got 0.");
}
