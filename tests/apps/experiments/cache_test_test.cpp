#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <optional>
#include <string>
#include <vector>

#include "poslab/core/random.h"
#include "poslab/methods/list.h"
#include "run_experiment.h"

using namespace poslab;

namespace {

struct Result : RanExperiment {
  // -1 where they never part.
  std::int64_t first_divergence() const {
    return summary_is_null("first_divergence") ? -1 : summary<std::int64_t>("first_divergence");
  }
};

Result run(const Settings& settings = {}, int threads = 1) { return {run_experiment("cache-test", settings, threads)}; }

std::string refusal(const Settings& settings) { return ::refusal("cache-test", settings); }

std::int64_t count(std::int64_t n) { return n; }

}  // namespace

TEST_CASE("cache-test: dynamic NTK parts from the full pass at the trained length, to the right values") {
  const Result result = run();
  CHECK(result.first_divergence() == 64);
  CHECK(result.summary<std::string>("verdict") == "diverges");
  CHECK(result.report.rows.count == 48);

  // The same in complex numbers: pair i of a token is a number that turns by position * w_i, where w_i comes from the
  // length at which the key was cached (factor 4: the target is four times the trained length of 64).
  Generator generator(1);
  const auto queries = generator.normals(96 * 2 * 64), keys = generator.normals(96 * 2 * 64);
  const auto frequency = [](std::int64_t length, std::size_t i) {
    const double grown = 4 * std::max(static_cast<double>(length), 64.0) / 64 - 3;
    return std::pow(10000 * std::pow(grown, 64.0 / 62), -2.0 * static_cast<double>(i) / 64);
  };
  const auto score = [&](std::size_t t, std::size_t j, std::size_t head, std::int64_t key_length) {
    double sum = 0;
    for (std::size_t i = 0; i < 32; ++i) {
      const std::size_t q = (t * 2 + head) * 64 + 2 * i, k = (j * 2 + head) * 64 + 2 * i;
      const double query_angle = static_cast<double>(t) * frequency(static_cast<std::int64_t>(t) + 1, i);
      const double key_angle = static_cast<double>(j) * frequency(key_length, i);
      sum += (std::complex(queries[q], queries[q + 1]) * std::polar(1.0, query_angle) *
              std::conj(std::complex(keys[k], keys[k + 1]) * std::polar(1.0, key_angle)))
                 .real();
    }
    return sum / 8;
  };
  for (const std::size_t t : {63U, 64U, 80U, 95U}) {
    double score_diff = 0, weight_diff = 0;
    for (std::size_t head = 0; head < 2; ++head) {
      std::vector<double> cached, full;
      double cached_sum = 0, full_sum = 0;
      for (std::size_t j = 0; j <= t; ++j) {
        const auto now = static_cast<std::int64_t>(t) + 1;
        cached.push_back(score(t, j, head, j < 48 ? 48 : static_cast<std::int64_t>(j) + 1));
        full.push_back(score(t, j, head, now));
        cached_sum += std::exp(cached.back());
        full_sum += std::exp(full.back());
      }
      for (std::size_t j = 0; j <= t; ++j) {
        score_diff = std::max(score_diff, std::abs(cached[j] - full[j]));
        weight_diff = std::max(weight_diff, std::abs(std::exp(cached[j]) / cached_sum - std::exp(full[j]) / full_sum));
      }
    }
    const auto row = static_cast<std::int64_t>(t) - 48;
    CHECK(result.row<std::int64_t>(row, "step") == static_cast<std::int64_t>(t));
    CHECK(std::abs(result.row<double>(row, "score_diff") - score_diff) < 1e-11);
    CHECK(std::abs(result.row<double>(row, "weight_diff") - weight_diff) < 1e-11);
  }
}

TEST_CASE("cache-test: re-rotating and rebuilding repair it, pinning agrees with a pass over the whole text") {
  const Result re_rotate = run({{"policy", "re-rotate"}});
  CHECK(re_rotate.first_divergence() == -1);
  CHECK(re_rotate.summary<std::string>("verdict") == "consistent");
  CHECK(re_rotate.summary<std::int64_t>("total_keys_redone") == (48 + 95) * 48 / 2);
  const Result rebuild = run({{"policy", "rebuild"}});
  CHECK(rebuild.first_divergence() == -1);
  CHECK(rebuild.summary<std::int64_t>("frequency_changes") == 32);
  CHECK(rebuild.summary<std::int64_t>("total_keys_redone") == (64 + 95) * 32 / 2);
  const Result pin = run({{"policy", "pin"}});
  CHECK(pin.first_divergence() == 48);
  CHECK(pin.row<double>(47, "score_diff") < 1e-9);
  CHECK(run({{"policy", "pin"}, {"full_pass", "whole-text"}}).first_divergence() == -1);
  CHECK(run({{"policy", "keep"}, {"full_pass", "whole-text"}}).first_divergence() == 48);
}

TEST_CASE("cache-test: LongRoPE switches factors at the original length") {
  std::vector<double> ones(32, 1.0), long_factor;
  for (int i = 0; i < 32; ++i) long_factor.push_back(1 + 2.0 * i);
  const Settings longrope = {{"rope_type", "longrope"}, {"short_factor", ones}, {"long_factor", long_factor}};
  const Result keep = run(longrope);
  CHECK(keep.first_divergence() == 64);
  CHECK(keep.summary<std::int64_t>("frequency_changes") == 1);
  CHECK(run(with(longrope, {{"policy", "re-rotate"}})).first_divergence() == -1);
  const Result rebuild = run(with(longrope, {{"policy", "rebuild"}}));
  CHECK(rebuild.first_divergence() == -1);
  CHECK(rebuild.summary<std::int64_t>("total_keys_redone") == 64);
  const Result pin = run(with(longrope, {{"policy", "pin"}}));
  CHECK(pin.first_divergence() == 48);
  // Past the switch the pinned factors are those of the full pass.
  for (std::int64_t i = 0; i < 48; ++i) CHECK((pin.row<double>(i, "score_diff") < 1e-9) == (i >= 16));
}

TEST_CASE("cache-test: scalings that never change and encodings without frequencies agree") {
  for (const char* type : {"default", "linear", "ntk", "ntk_by_parts", "yarn", "llama3", "proportional"}) {
    CAPTURE(type);
    CHECK(run({{"rope_type", type}}).first_divergence() == -1);
  }
  for (const std::string_view word : PositionEncoding::words()) {
    if (word == "rope") continue;
    CAPTURE(word);
    const std::string encoding(word);
    CHECK(run({{"encoding", encoding}, {"rope_type", "default"}, {"n_heads", count(4)}, {"n_kv_heads", count(2)}}).first_divergence() == -1);
  }
}

TEST_CASE("cache-test: positions of padded and packed rows, right and wrong") {
  const auto parts = [](const char* encoding, const char* from, const char* before) {
    return run({{"encoding", encoding}, {"rope_type", "default"}, {before, count(7)}, {"positions_from", from}})
        .first_divergence();
  };
  for (const char* before : {"padding", "packed"}) {
    for (const char* encoding : {"rope", "none", "learned", "sinusoidal", "alibi", "t5", "kerple", "xpos"}) {
      CAPTURE(encoding);
      CAPTURE(before);
      const bool absolute = std::string(encoding) == "learned" || std::string(encoding) == "sinusoidal";
      const bool none = std::string(encoding) == "none";
      CHECK(parts(encoding, "mask", before) == -1);
      // A constant shift moves only what is added to the tokens.
      CHECK(parts(encoding, "row", before) == (absolute ? 48 : -1));
      CHECK(parts(encoding, "mask-then-row", before) == (none ? -1 : 48));
    }
  }
  // Queries that count from 0 again lose their distance to the prompt.
  for (const char* encoding : {"rope", "learned", "sinusoidal", "alibi", "t5"}) {
    CAPTURE(encoding);
    CHECK(parts(encoding, "restart", "padding") == 48);
  }
  CHECK(run({{"encoding", "none"}, {"padding", count(3)}, {"see_before", true}}).first_divergence() == 48);
  // Counted padding also reaches dynamic's trained length earlier.
  CHECK(run({{"padding", count(5)}, {"positions_from", "row"}}).first_divergence() == 59);
}

TEST_CASE("cache-test: a long request leaves its base behind until a short one comes") {
  const Settings after_long = {
      {"previous_length", count(200)}, {"policy", "re-rotate"}, {"prompt_len", count(70)}, {"seq_len", count(80)}};
  CHECK(run(after_long).first_divergence() == 70);
  CHECK(run(with(after_long, {{"prompt_len", count(64)}})).first_divergence() == 64);
  CHECK(run(with(after_long, {{"prompt_len", count(63)}})).first_divergence() == -1);
  CHECK(run(with(after_long, {{"previous_length", count(60)}})).first_divergence() == -1);
}

TEST_CASE("cache-test: a model file supplies the scaling, and threads change nothing") {
  const Settings phi = {
      {"model", "phi-3.5-mini"}, {"prompt_len", count(4094)}, {"seq_len", count(4099)}, {"n_heads", count(1)}};
  const Result one = run(phi);
  CHECK(one.first_divergence() == 4096);
  const Result two = run(phi, 2);
  for (std::int64_t i = 0; i < 5; ++i) {
    CHECK(two.row<double>(i, "score_diff") == one.row<double>(i, "score_diff"));
    CHECK(two.row<double>(i, "weight_diff") == one.row<double>(i, "weight_diff"));
  }
}

TEST_CASE("cache-test: what cannot be is refused with a sentence") {
  CHECK(refusal({{"seq_len", count(1)}}) == "[cache-test] seq_len must be 2 .. 1048576 but got 1.");
  CHECK(refusal({{"prompt_len", count(96)}, {"seq_len", count(96)}}) ==
        "[cache-test] prompt_len must be 1 .. 95 but got 96.");
  CHECK(refusal({{"padding", count(-1)}}) == "[cache-test] padding must be 0 .. 1048576 but got -1.");
  CHECK(refusal({{"n_heads", count(3)}, {"n_kv_heads", count(2)}}) ==
        "[cache-test] n_heads 3 is not divisible by n_kv_heads 2.");
  CHECK(refusal({{"encoding", "alibi"}, {"model", "phi-3.5-mini"}}) ==
        "[cache-test] model is read with rotations only, not with alibi.");
  CHECK(refusal({{"tolerance", -1.0}}) == "[cache-test] tolerance must be 0 or more but got -1.");
}
