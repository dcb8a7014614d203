#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "golden.h"
#include "poslab/core/element_type.h"
#include "poslab/formats/npy.h"
#include "poslab/methods/list.h"
#include "run_experiment.h"
#include "scratch.h"

using Reals = std::vector<double>;
using Integers = std::vector<std::int64_t>;
using Words = std::vector<std::string>;
using Int = std::int64_t;

namespace {

std::string npy(const std::vector<Int>& shape, const Reals& values) {
  return poslab::npy_header(poslab::DType::f64, shape) +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
}

// The whole table of a run, row after row.
Reals table_of(const RanExperiment& ran) {
  Reals out;
  for (Int i = 0; i < ran.report.rows.count; ++i) {
    const auto row = ran.row<Reals>(i, "values");
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

Reals tensor_of(const poslab::TensorSource& tensor, Int first, Int count) {
  Reals out(static_cast<std::size_t>(count * tensor.shape[1]));
  std::vector<std::byte> bytes(out.size() * bytes_per_element(tensor.dtype));
  tensor.fill(first, count, bytes.data());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (tensor.dtype == poslab::DType::f64) {
      std::memcpy(&out[i], &bytes[8 * i], 8);
    } else {
      float f;
      REQUIRE(tensor.dtype == poslab::DType::f32);
      std::memcpy(&f, &bytes[4 * i], 4);
      out[i] = f;
    }
  }
  return out;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("table: without flags the lesson's 64 x 32, to the last bit") {
  const auto ran = run_experiment("table");
  const auto lesson = golden("lesson_table.json")["table_glibc"].get<std::vector<Reals>>();
  REQUIRE(ran.report.rows.count == 64);
  for (Int p = 0; p < 64; ++p) {
    CHECK(ran.row<Int>(p, "position") == p);
    CHECK(ran.row<Reals>(p, "values") == lesson[static_cast<std::size_t>(p)]);
  }
  CHECK(ran.report.rows.columns == Words{"position", "values"});
  CHECK(ran.summary_is_null("most_similar"));
  CHECK(ran.summary<double>("shortest_wavelength") == doctest::Approx(2 * M_PI));
  CHECK(ran.report.pictures.at(0).width == 64);
  CHECK(ran.report.pictures.at(0).height == 32);
}

TEST_CASE("table: the positions most similar to 20, ties and all") {
  const auto ran = run_experiment("table", {{"similar_to", Int{20}}});
  CHECK(ran.summary<Integers>("most_similar") == Integers{20, 19, 21, 18, 22});
  CHECK(ran.summary<Integers>("ties") == Integers{1, 2, 2, 4, 4});
  const auto similar = ran.summary<Reals>("similarities");
  CHECK(similar[0] == 16);
  CHECK(std::abs(similar[1] - 15.313649189905268) < 1e-12);
  CHECK(similar[1] == similar[2]);
  CHECK(std::abs(similar[3] - 13.730137217271949) < 1e-12);
  CHECK(contains(ran.report.conclusion, "20 (16), 19 and 21 tied (15.3136), 18 and 22 tied (13.7301)"));

  // The whole ranking is the exact one of the golden similarities, with equal distances tied.
  const auto all = run_experiment("table", {{"similar_to", Int{20}}, {"top", Int{1000}}});
  const auto exact = golden("lesson_table.json")["sim_exact_rounded"].get<Reals>();
  const auto order = all.summary<Integers>("most_similar");
  const auto ranks = all.summary<Integers>("ties");
  REQUIRE(order.size() == 64);
  for (std::size_t i = 1; i < order.size(); ++i) {
    const auto before = order[i - 1], here = order[i];
    CHECK(exact[static_cast<std::size_t>(before)] >= exact[static_cast<std::size_t>(here)] - 1e-13);
    const bool tied = std::abs(before - 20) == std::abs(here - 20);
    CHECK((ranks[i] == ranks[i - 1]) == tied);
    if (tied) CHECK(before < here);
  }
}

TEST_CASE("table: a ranking over very many positions keeps only the best") {
  const auto ran =
      run_experiment("table", {{"seq_len", Int{200000}}, {"d_model", Int{4}}, {"similar_to", Int{100000}}});
  CHECK(ran.summary<Integers>("most_similar")[0] == 100000);
  CHECK(ran.summary<Integers>("ties")[2] == 2);
}

TEST_CASE("table: tables without paired waves, and learned ones, tie where bits are equal") {
  // Sine without a partner: the product is that of the rows.
  const auto odd = run_experiment("table", {{"d_model", Int{5}}, {"similar_to", Int{3}}});
  const auto rows = table_of(odd);
  const auto best = odd.summary<Integers>("most_similar");
  const auto similar = odd.summary<Reals>("similarities");
  for (std::size_t i = 0; i < best.size(); ++i) {
    double product = 0;
    for (std::size_t c = 0; c < 5; ++c) product += rows[15 + c] * rows[static_cast<std::size_t>(best[i]) * 5 + c];
    CHECK(similar[i] == product);
  }
  CHECK(contains(odd.report.conclusion, "one sine more"));

  const Scratch scratch;
  const std::string path = scratch.file(npy({4, 2}, {0.5, 0, 1, 0, 0, 3, 1, 7}));
  const auto file = run_experiment("table", {{"position_table", path}, {"similar_to", Int{1}}, {"top", Int{3}}});
  CHECK(file.summary<std::string>("resolved_encoding") == "learned");
  CHECK(file.report.rows.count == 4);
  CHECK(file.summary<Integers>("most_similar") == Integers{1, 3, 0});
  CHECK(file.summary<Integers>("ties") == Integers{1, 1, 3});
}

TEST_CASE("table: a learned table is numpy's normals times 0.02, or the file") {
  const auto drawn = run_experiment("table", {{"encoding", "learned"}, {"seq_len", Int{3}}, {"d_model", Int{2}}});
  // numpy.random.default_rng(0).standard_normal(6) * 0.02
  const Reals normals{0.12573022, -0.13210486, 0.64042265, 0.10490012, -0.53566937, 0.36159505};
  const auto values = table_of(drawn);
  for (std::size_t i = 0; i < 6; ++i) CHECK(std::abs(values[i] - 0.02 * normals[i]) < 1e-9);

  const Scratch scratch;
  const std::string path = scratch.file(npy({3, 2}, {1, 2, 3, 4, 5, 6}));
  CHECK(table_of(run_experiment("table", {{"position_table", path}})) == Reals{1, 2, 3, 4, 5, 6});
  CHECK(table_of(run_experiment("table", {{"position_table", path}, {"seq_len", Int{2}}})) == Reals{1, 2, 3, 4});
  CHECK(contains(refusal("table", {{"position_table", path}, {"seq_len", Int{5}}}), "5 tokens do not fit"));
  CHECK(contains(refusal("table", {{"position_table", path}, {"d_model", Int{3}}}), "has shape 3 x 2"));
  CHECK(contains(refusal("table", {{"position_table", path}, {"encoding", "rope"}}), "does not go with encoding rope"));
  CHECK(contains(refusal("table", {{"position_table", scratch.path("none")}}), "No such file"));
}

TEST_CASE("table: your own table is compared with every variant") {
  const Scratch scratch;
  for (const auto& entry : words(poslab::SinusoidalVariant{})) {
    const poslab::SinusoidalTable table(6, 10000, entry.first);
    Reals values(10 * 6);
    table.fill(0, values);
    values[17] += 1e-3;
    const std::string path = scratch.file(npy({10, 6}, values));
    const auto ran = run_experiment("table", {{"compare_with", path}});
    CHECK(ran.summary<std::string>("best_variant") == entry.second);
    const auto names = ran.summary<Words>("compared_variants");
    CHECK(names.size() == words(poslab::SinusoidalVariant{}).size());
    CHECK(names[0] == "paper");
    CHECK(ran.summary<Reals>("compared_max_abs_diff")[0] == ran.summary<double>("max_abs_diff"));
    if (entry.second == "paper") {
      CHECK(ran.summary<double>("max_abs_diff") == doctest::Approx(1e-3));
      CHECK(ran.summary<Int>("worst_position") == 2);
      CHECK(ran.summary<Int>("worst_channel") == 5);
    } else {
      CHECK(ran.summary<double>("max_abs_diff") > 0.1);
    }
  }
  const std::string path = scratch.file(npy({2, 2}, {1, 0, 0, 1}));
  CHECK(contains(refusal("table", {{"compare_with", path}, {"seq_len", Int{3}}}),
                 "has shape 2 x 2 but the table asked for is 3 x 2; see seq_len and d_model"));
  CHECK(contains(refusal("table", {{"compare_with", path}, {"encoding", "rope"}}), "head_dim"));
  const auto half = run_experiment("table", {{"encoding", "rope"}, {"layout", "half"}, {"head_dim", Int{4}}});
  const std::string saved = scratch.file(npy({64, 4}, table_of(half)));
  const auto rope = run_experiment("table", {{"encoding", "rope"}, {"compare_with", saved}, {"head_dim", Int{4}}});
  CHECK(rope.summary<std::string>("best_variant") == "half");
}

TEST_CASE("table: rope's cos and sin in both layouts") {
  const Settings base{{"encoding", "rope"}, {"head_dim", Int{8}}, {"rotary_dim", Int{4}}, {"seq_len", Int{3}}};
  const auto with = [&](const char* layout) {
    Settings s = base;
    s.emplace_back("layout", layout);
    return run_experiment("table", s).row<Reals>(2, "values");
  };
  const Reals interleaved = with("interleaved"), half = with("half");
  const Reals expected{std::cos(2.0), std::sin(2.0), std::cos(0.02), std::sin(0.02)};
  for (std::size_t c = 0; c < 4; ++c) CHECK(std::abs(interleaved[c] - expected[c]) < 1e-15);
  CHECK(half == Reals{interleaved[0], interleaved[2], interleaved[1], interleaved[3]});
  const auto similar = run_experiment("table", {{"encoding", "rope"}, {"similar_to", Int{5}}, {"top", Int{3}}});
  CHECK(similar.summary<Reals>("similarities")[0] == 8);
  CHECK(similar.summary<Integers>("most_similar") == Integers{5, 4, 6});
  CHECK(similar.summary<Integers>("ties") == Integers{1, 2, 2});
  CHECK(refusal("table", {{"encoding", "rope"}, {"rotary_dim", Int{3}}}) != "");
  CHECK(contains(refusal("table", {{"encoding", "rope"}, {"rotary_dim", Int{18}}}), "more than head_dim 16"));
}

TEST_CASE("table: ALiBi slopes and the bias by distance, Falcon's through bf16") {
  const auto cases = golden("alibi.json")["heads"];
  for (const auto& [heads, expected] : cases.items()) {
    const Settings base{{"encoding", "alibi"}, {"n_heads", Int{std::stoll(heads)}}, {"seq_len", Int{6}}};
    const auto ran = run_experiment("table", base);
    Settings narrowed = base;
    narrowed.emplace_back("dtype", "bf16");
    const auto falcon = run_experiment("table", narrowed);
    REQUIRE(ran.report.rows.count == std::ssize(expected["slopes"]));
    for (Int h = 0; h < ran.report.rows.count; ++h) {
      const double slope = expected["slopes"][static_cast<std::size_t>(h)].get<double>();
      CHECK(ran.row<Int>(h, "head") == h);
      CHECK(std::abs(ran.row<double>(h, "slope") - slope) < 1e-12);
      CHECK(falcon.row<double>(h, "slope") == expected["falcon_bf16"][static_cast<std::size_t>(h)].get<double>());
      CHECK(std::abs(ran.row<Reals>(h, "values")[5] + 5 * slope) < 1e-12);
    }
    CHECK(table_of(ran) == tensor_of(ran.report.tensor, 0, ran.report.rows.count));
  }
  CHECK(run_experiment("table", {{"encoding", "alibi"}}).report.rows.columns == Words{"head", "slope", "values"});
}

TEST_CASE("table: T5 buckets") {
  const auto sets = golden("t5_buckets.json")["sets"];
  for (const auto& set : sets) {
    const Int first = set["first_relative_position"].get<Int>();
    const Int last = first + std::ssize(set["buckets"]) - 1;
    const auto ran = run_experiment("table", {{"encoding", "t5"},
                                              {"bidirectional", set["bidirectional"].get<bool>()},
                                              {"num_buckets", set["num_buckets"].get<Int>()},
                                              {"max_distance", set["max_distance"].get<Int>()},
                                              {"first_relative_position", first},
                                              {"last_relative_position", last}});
    REQUIRE(ran.report.rows.count == std::ssize(set["buckets"]));
    for (Int i = 0; i < ran.report.rows.count; ++i) {
      CHECK(ran.row<Int>(i, "relative_position") == first + i);
      CHECK(ran.row<Int>(i, "bucket") == set["buckets"][static_cast<std::size_t>(i)].get<Int>());
    }
  }
  const auto one = run_experiment(
      "table", {{"encoding", "t5"}, {"first_relative_position", Int{-1000}}, {"last_relative_position", Int{-1000}}});
  CHECK(one.row<Int>(0, "bucket") == 15);
  CHECK(one.report.tensor.shape == std::vector<Int>{1});
  CHECK(refusal("table",
                {{"encoding", "t5"}, {"first_relative_position", Int{5}}, {"last_relative_position", Int{4}}}) != "");
  CHECK(contains(
      refusal("table",
              {{"encoding", "t5"}, {"first_relative_position", INT64_MIN}, {"last_relative_position", INT64_MAX}}),
      "too many"));
}

TEST_CASE("table: the tensor is the rows, whatever the threads and the pieces") {
  const Settings big{{"seq_len", Int{1000000}}, {"d_model", Int{128}}, {"dtype", "f32"}};
  const auto one = run_experiment("table", big), two = run_experiment("table", big, 2);
  CHECK(one.report.tensor.shape == std::vector<Int>{1000000, 128});
  const Reals piece = tensor_of(one.report.tensor, 999000, 1000);
  CHECK(piece == tensor_of(two.report.tensor, 999000, 1000));
  const Reals last = one.row<Reals>(999999, "values");
  CHECK(Reals(piece.end() - 128, piece.end()) == last);
  CHECK(last[0] == static_cast<float>(std::sin(999999.0)));
}

TEST_CASE("table: what cannot be is refused") {
  CHECK(contains(refusal("table", {{"seq_len", Int{0}}}), "seq_len must be at least 1 but got 0."));
  CHECK(contains(refusal("table", {{"d_model", Int{0}}}), "d_model must be 1 .. 16777216 but got 0."));
  CHECK(contains(refusal("table", {{"seq_len", INT64_MAX}}), "beyond the 64-bit integers"));
  CHECK(contains(refusal("table", {{"similar_to", Int{64}}}), "similar_to 64 is not one of the positions 0 .. 63."));
  CHECK(contains(refusal("table", {{"similar_to", Int{-1}}}), "similar_to -1"));
  CHECK(contains(refusal("table", {{"similar_to", Int{1}}, {"top", Int{0}}}), "top must be at least 1"));
  CHECK(contains(refusal("table", {{"encoding", "t5"}, {"similar_to", Int{1}}}), "t5 has none"));
  CHECK(refusal("table", {{"base", 0.0}}) != "");
  CHECK(refusal("table", {{"encoding", "alibi"}, {"n_heads", Int{0}}}) != "");
}

TEST_CASE("table: every method has one, or says where it shows; kerple, fire and xpos by distance") {
  for (const std::string_view word : poslab::PositionEncoding::words()) {
    CAPTURE(word);
    const Settings asked{{"encoding", std::string(word)}, {"seq_len", Int{6}}};
    const std::string error = refusal("table", asked);
    CHECK((error.empty() || contains(error, "poslab shuffle-test --encoding " + std::string(word))));
    CHECK(error.empty() == (word != "none"));
  }
  const Settings kerple{{"encoding", "kerple"}, {"seq_len", Int{9}}, {"kerple_r1", 2.0}, {"kerple_r2", 0.5}};
  const Reals bias = run_experiment("table", kerple).row<Reals>(3, "values");
  for (std::size_t distance = 0; distance < 9; ++distance) {
    CHECK(bias[distance] == doctest::Approx(-2 * std::log(1 + 0.5 * static_cast<double>(distance))).epsilon(1e-14));
  }
  const auto decay = run_experiment("table", {{"encoding", "xpos"}, {"seq_len", Int{513}}, {"head_dim", Int{64}}});
  CHECK(decay.report.rows.count == 32);
  CHECK(decay.row<Reals>(0, "values")[512] == doctest::Approx(0.4 / 1.4).epsilon(1e-14));
  CHECK(decay.row<Reals>(31, "values")[0] == 1);
  // Before training: the same network whatever asks for it.
  const auto fire = run_experiment("table", {{"encoding", "fire"}, {"seq_len", Int{32}}, {"n_heads", Int{2}}});
  poslab::MethodParams params;
  const poslab::MethodModel model{params, 32, 2, 16, 32, true};
  poslab::Generator generator(0);
  const auto network = poslab::fire_method().bias(model, poslab::initial_values(poslab::fire_method(), model, generator));
  CHECK(fire.row<Reals>(1, "values")[7] == network->at(1, 31, 24));
  CHECK(contains(refusal("table", {{"encoding", "fire"}, {"alibi_bias_max", 4.0}}),
                 "[table] alibi_bias_max is a parameter of alibi; fire has not this one."));
}
