#include "poslab/probe/probe.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "golden.h"
#include "poslab/core/element_type.h"
#include "poslab/probe/inference.h"
#include "poslab/rope/scalings.h"

using namespace poslab;

namespace {

// An engine written here from the formulas, without poslab's code, and what can go wrong in it.
struct Engine {
  std::vector<double> inv_freq;
  double attention_factor = 1;
  bool half = true;
  std::function<double(double)> position = [](double p) { return p; };
  double sign = 1;
  bool bf16_tables = false;
};

std::vector<double> plain(int dim, double theta) {
  std::vector<double> w;
  for (int i = 0; i < dim / 2; ++i) w.push_back(1 / std::pow(theta, 2.0 * i / dim));
  return w;
}

std::vector<double> yarn(int dim, double theta, double k, double length, bool round) {
  const auto pair_of = [&](double turns) {
    return dim * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  double low = pair_of(32), high = pair_of(1);
  if (round) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  std::vector<double> w = plain(dim, theta);
  for (int i = 0; i < dim / 2; ++i) {
    const double r = std::min(1.0, std::max(0.0, (i - low) / (high - low)));
    w[i] = w[i] / k * r + w[i] * (1 - r);
  }
  return w;
}

std::vector<double> llama3(int dim, double theta, double k, double length) {
  std::vector<double> w = plain(dim, theta);
  for (double& f : w) {
    const double turns = length * f / (2 * std::numbers::pi);
    f = turns > 4 ? f : turns < 1 ? f / k : (1 - (turns - 1) / 3) * f / k + (turns - 1) / 3 * f;
  }
  return w;
}

struct Dump {
  std::vector<double> input, output;
  VectorDump dump;
};

std::vector<double> long_and_short_positions() {
  std::vector<double> positions;
  for (int p = 0; p < 32; ++p) positions.push_back(p);
  for (double p : {100, 500, 1000, 2000, 4000, 4095}) positions.push_back(p);
  return positions;
}

Dump run(const Engine& engine, int head_dim, const std::vector<double>& positions, int vectors, DType dtype) {
  Dump d;
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  const auto pairs = static_cast<int>(engine.inv_freq.size());
  for (double position : positions) {
    for (int v = 0; v < vectors; ++v) {
      d.dump.input_rows.push_back(static_cast<std::int64_t>(d.input.size()));
      const std::size_t row = d.input.size();
      for (int c = 0; c < head_dim; ++c) d.input.push_back(round_to(dtype, normal(random)));
      d.output.insert(d.output.end(), d.input.begin() + static_cast<std::ptrdiff_t>(row), d.input.end());
      for (int i = 0; i < pairs; ++i) {
        const double angle = engine.sign * engine.position(position) * engine.inv_freq[i];
        double c = engine.attention_factor * std::cos(angle), s = engine.attention_factor * std::sin(angle);
        if (engine.bf16_tables) {
          c = round_to(DType::bf16, c);
          s = round_to(DType::bf16, s);
        }
        const std::size_t a = row + static_cast<std::size_t>(engine.half ? i : 2 * i);
        const std::size_t b = row + static_cast<std::size_t>(engine.half ? i + pairs : 2 * i + 1);
        d.output[a] = round_to(dtype, d.input[a] * c - d.input[b] * s);
        d.output[b] = round_to(dtype, d.input[a] * s + d.input[b] * c);
      }
    }
  }
  d.dump.input = d.input;
  d.dump.output = d.output;
  d.dump.output_rows = d.dump.input_rows;
  d.dump.head_dim = head_dim;
  d.dump.n_vectors = vectors;
  d.dump.positions = positions;
  d.dump.stored_as = dtype;
  return d;
}

ProbeFinding ask(const Dump& d, const ProbeQuestion& question) { return examine(d.dump, question, 1); }

ProbeQuestion meant(const RopeScaling& scaling, int head_dim) {
  RopeHypothesis h;
  set_scaling(h, scaling);
  ProbeQuestion question;
  question.meant = {h};
  question.head_dim = head_dim;
  return question;
}

RopeScaling scaling_of(RopeType type, int dim, double theta) {
  RopeScaling s;
  s.rope_type = type;
  s.rope_theta = theta;
  s.head_dim = s.rotary_dim = dim;
  return s;
}

// One model of each kind, the engine that runs it rightly, and engines that each make one mistake.
struct Case {
  std::string model;
  RopeScaling scaling;
  int rotary_dim;
  Engine right;
  std::vector<std::pair<std::string, Engine>> wrong;
};

Engine with(Engine engine, const std::function<void(Engine&)>& slip) {
  slip(engine);
  return engine;
}

std::vector<Case> cases(int d) {
  std::vector<Case> all;

  Case base{"base 500000", scaling_of(default_scaling, d, 500000), d, {.inv_freq = plain(d, 500000)}, {}};
  const Engine e = base.right;
  base.wrong = {{"pairing swapped", with(e, [](Engine& x) { x.half = false; })},
                {"base default used", {.inv_freq = plain(d, 10000)}},
                {"positions shifted", with(e, [](Engine& x) { x.position = [](double p) { return p + 1; }; })},
                {"positions shifted", with(e, [](Engine& x) { x.position = [](double p) { return p + 37; }; })},
                {"positions doubled", with(e, [](Engine& x) { x.position = [](double p) { return 2 * p; }; })},
                {"negative angle", with(e, [](Engine& x) { x.sign = -1; })},
                {"not rotated", with(e, [](Engine& x) { x.position = [](double) { return 0.0; }; })},
                {"tables in bf16", with(e, [](Engine& x) { x.bf16_tables = true; })},
                {"pairing swapped and positions doubled", with(e, [](Engine& x) {
                   x.half = false;
                   x.position = [](double p) { return 2 * p; };
                 })}};
  all.push_back(base);

  Case partial{"partial", scaling_of(default_scaling, d, 1e6), d / 2, {.inv_freq = plain(d / 2, 1e6)}, {}};
  partial.scaling.rotary_dim = d / 2;
  std::vector<double> wide = plain(d, 1e6);
  partial.wrong.push_back({"partial rotation ignored", {.inv_freq = wide}});
  wide.resize(wide.size() / 2);
  partial.wrong.push_back({"frequencies from head_dim", {.inv_freq = wide}});
  all.push_back(partial);

  std::vector<double> slowed = plain(d, 1e6);
  for (double& w : slowed) w /= 8;
  Case linear{"linear", scaling_of(linear_scaling, d, 1e6), d, {.inv_freq = slowed}, {}};
  linear.scaling.factor = 8;
  linear.wrong = {{"linear factor missing", {.inv_freq = plain(d, 1e6)}}};
  all.push_back(linear);

  const double af = 0.1 * std::log(16) + 1;
  const std::vector<double> w = yarn(d, 500000, 16, 4096, true);
  Case y{"yarn", scaling_of(yarn_scaling, d, 500000), d, {.inv_freq = w, .attention_factor = af}, {}};
  y.scaling.factor = 16;
  y.scaling.original_max_position_embeddings = 4096;
  y.scaling.max_position_embeddings = 65536;
  y.wrong = {{"attention factor squared", {.inv_freq = w, .attention_factor = af * af}},
             {"attention factor dropped", {.inv_freq = w}},
             {"attention factor log of log", {.inv_freq = w, .attention_factor = 0.1 * af * std::log(16) + 1}},
             {"YaRN ramp not rounded", {.inv_freq = yarn(d, 500000, 16, 4096, false), .attention_factor = af}},
             {"original length wrong", {.inv_freq = yarn(d, 500000, 16, 65536, true), .attention_factor = af}},
             {"YaRN block ignored", {.inv_freq = plain(d, 500000)}},
             {"rotated twice", with({.inv_freq = w, .attention_factor = af * af},
                                    [](Engine& x) { x.position = [](double p) { return 2 * p; }; })}};
  all.push_back(y);

  Case fine{"yarn, not rounded",
            y.scaling,
            d,
            {.inv_freq = yarn(d, 500000, 16, 4096, false), .attention_factor = af},
            {{"YaRN ramp rounded", {.inv_freq = w, .attention_factor = af}}}};
  fine.scaling.truncate = false;
  all.push_back(fine);

  Case llama{"llama3", scaling_of(llama3_scaling, d, 500000), d, {.inv_freq = llama3(d, 500000, 8, 8192)}, {}};
  llama.scaling.factor = 8;
  llama.scaling.original_max_position_embeddings = 8192;
  llama.scaling.max_position_embeddings = 131072;
  llama.wrong = {{"Llama-3 block ignored", {.inv_freq = plain(d, 500000)}},
                 {"original length wrong", {.inv_freq = llama3(d, 500000, 8, 131072)}}};
  all.push_back(llama);

  Case longrope{"longrope", scaling_of(longrope_scaling, d, 10000), d, {}, {}};
  longrope.scaling.factor = 32;
  longrope.scaling.original_max_position_embeddings = 4096;
  longrope.right.attention_factor = std::sqrt(1 + std::log(32) / std::log(4096));
  longrope.right.inv_freq = plain(d, 10000);
  Engine lengthened = longrope.right;
  for (int i = 0; i < d / 2; ++i) {
    longrope.scaling.short_factor.push_back(1 + 0.01 * i);
    longrope.scaling.long_factor.push_back(1 + 0.3 * i);
    longrope.right.inv_freq[i] /= 1 + 0.01 * i;
    lengthened.inv_freq[i] /= 1 + 0.3 * i;
  }
  longrope.wrong = {{"long factors used short", lengthened},
                    {"attention factor dropped", with(longrope.right, [](Engine& x) { x.attention_factor = 1; })}};
  all.push_back(longrope);
  return all;
}

}  // namespace

TEST_CASE("probe: every named mistake is recovered, and right engines are never accused") {
  for (int d : {64, 128}) {
    for (const Case& c : cases(d)) {
      for (DType dtype : {DType::f32, DType::bf16}) {
        CAPTURE(d);
        CAPTURE(c.model);
        CAPTURE(to_word(dtype));
        const ProbeQuestion question = meant(c.scaling, d);
        const ProbeFinding right = ask(run(c.right, d, long_and_short_positions(), 2, dtype), question);
        CHECK(right.verdict == ProbeVerdict::match);
        CHECK(right.mistake == "");
        for (const auto& [name, engine] : c.wrong) {
          CAPTURE(name);
          const ProbeFinding found = ask(run(engine, d, long_and_short_positions(), 2, dtype), question);
          CHECK(found.verdict == ProbeVerdict::mismatch);
          CHECK(found.explained);
          const std::size_t at = found.mistake.find(name);
          CHECK_MESSAGE(at != std::string::npos, found.mistake);
        }
      }
    }
  }
}

TEST_CASE("probe: without a word about what was meant, the parameters come from the data alone") {
  for (int d : {64, 128}) {
    for (const Case& c : cases(d)) {
      if (c.scaling.rope_type == longrope_scaling) continue;  // a factor of its own for each pair
      for (DType dtype : {DType::f32, DType::bf16}) {
        CAPTURE(d);
        CAPTURE(c.model);
        CAPTURE(to_word(dtype));
        ProbeQuestion nothing;
        nothing.head_dim = d;
        const ProbeFinding found = ask(run(c.right, d, long_and_short_positions(), 2, dtype), nothing);
        CHECK(found.verdict == ProbeVerdict::match);
        REQUIRE(found.explained);
        const RopeHypothesis& h = found.model.rope;
        CHECK(found.model.pairing.read == RopeLayout::half);
        CHECK(h.rotary_dim() == c.rotary_dim);
        CHECK(h.scaling.rope_theta == c.scaling.rope_theta);
        CHECK(to_word(h.scaling.rope_type) == to_word(c.scaling.rope_type));
        CHECK(h.scaling.factor == c.scaling.factor);
        CHECK(std::abs(found.model.cos_gain - c.right.attention_factor) < 1e-9);
        if (c.scaling.rope_type == yarn_scaling) CHECK(h.scaling.truncate == c.scaling.truncate);
      }
    }
  }
}

TEST_CASE("probe: one turned vector of a real model is enough, except at position 0") {
  int identified = 0;
  for (const auto& c : golden("rotate.json")) {
    CAPTURE(c["name"].get<std::string>());
    const auto input = c["input"].get<std::vector<double>>(), output = c["output_f64"].get<std::vector<double>>();
    double position = -1;
    if (c["position"].is_number()) {
      position = c["position"].get<double>();
    } else if (c["position"][0] == c["position"][1] && c["position"][1] == c["position"][2]) {
      position = c["position"][0].get<double>();
    }
    CAPTURE(position);
    VectorDump dump;
    dump.input = input;
    dump.output = output;
    dump.head_dim = static_cast<std::int64_t>(input.size());
    dump.positions = {position < 0 ? c["position"][0].get<double>() : position};
    dump.input_rows = dump.output_rows = {0};
    dump.stored_as = storage_type(output);
    ProbeQuestion nothing;
    nothing.head_dim = dump.head_dim;
    const ProbeFinding found = examine(dump, nothing, 1);
    const auto rope = c["rope_parameters"];
    const auto type = rope["rope_type"].get<std::string>();
    if (position == 0) {
      CHECK(found.verdict == ProbeVerdict::undecided);
      CHECK_FALSE(found.explained);
    } else if (position < 0 || type == "longrope") {
      // Three positions at once, or factors that only the model's file knows: no guess.
      CHECK(found.verdict == ProbeVerdict::mismatch);
      CHECK(found.mistake == unexplained);
      CHECK(found.found.worst > 100);
    } else {
      CHECK(found.verdict == ProbeVerdict::match);
      REQUIRE(found.explained);
      const RopeHypothesis& h = found.model.rope;
      const bool half = c["convention"].get<std::string>().rfind("half", 0) == 0;
      CHECK(found.model.pairing.read == (half ? RopeLayout::half : RopeLayout::interleaved));
      CHECK(h.rotary_dim() ==
            static_cast<std::int64_t>(rope.value("partial_rotary_factor", 1.0) * static_cast<double>(input.size())));
      CHECK(h.scaling.rope_theta == rope["rope_theta"].get<double>());
      CHECK(to_word(h.scaling.rope_type) == type);
      if (rope.contains("factor")) CHECK(h.scaling.factor == rope["factor"].get<double>());
      ++identified;
    }
  }
  CHECK(identified == 45);
}

TEST_CASE("probe: ggml's rotations") {
  int identified = 0;
  const nlohmann::json cases = golden("ggml_rope.json")["cases"];
  for (const auto& c : cases) {
    CAPTURE(c["name"].get<std::string>());
    const auto input = c["input"].get<std::vector<double>>(), output = c["output"].get<std::vector<double>>();
    VectorDump dump;
    dump.input = input;
    dump.output = output;
    dump.head_dim = c["head_dim"].get<std::int64_t>();
    dump.n_vectors = c["n_head"].get<std::int64_t>();
    const auto positions = c["positions"].get<std::vector<double>>();
    const std::size_t places = input.size() / static_cast<std::size_t>(dump.head_dim * dump.n_vectors);
    dump.positions.assign(positions.begin(), positions.begin() + static_cast<std::ptrdiff_t>(places));
    for (std::size_t row = 0; row < places * static_cast<std::size_t>(dump.n_vectors); ++row) {
      dump.input_rows.push_back(static_cast<std::int64_t>(row) * dump.head_dim);
    }
    dump.output_rows = dump.input_rows;
    dump.stored_as = storage_type(output);
    ProbeQuestion nothing;
    nothing.head_dim = dump.head_dim;
    const ProbeFinding found = examine(dump, nothing, 1);
    if (!c["sections"].empty()) {
      CHECK(found.mistake == unexplained);
      continue;
    }
    CHECK(found.mistake == (c["back"].get<bool>() ? "negative angle" : ""));
    REQUIRE(found.explained);
    const RopeHypothesis& h = found.model.rope;
    CHECK(found.model.pairing.read == (c["mode"] == 0 ? RopeLayout::interleaved : RopeLayout::half));
    CHECK(h.rotary_dim() == c["n_dims"].get<std::int64_t>());
    CHECK(h.scaling.rope_theta == c["freq_base"].get<double>());
    const double k = 1 / c["freq_scale"].get<double>(), ext = c["ext_factor"].get<double>();
    const double factor = c["attn_factor"].get<double>() * (ext != 0 ? 1 + 0.1 * std::log(k) : 1.0);
    CHECK(std::abs(found.model.cos_gain - factor) < 1e-6);
    const bool llama = !c["freq_factors"].empty();
    const RopeType type = llama ? llama3_scaling : ext != 0 ? yarn_scaling : k > 1 ? linear_scaling : default_scaling;
    CHECK(to_word(h.scaling.rope_type) == to_word(type));
    if (type == yarn_scaling || type == linear_scaling) CHECK(h.scaling.factor == k);
    if (type == yarn_scaling || type == llama3_scaling) {
      CHECK(h.scaling.original_max_position_embeddings == c["n_ctx_orig"].get<double>());
    }
    if (ext == 0.5) CHECK(h.detail == "ggml's ext_factor 0.5");
    ++identified;
  }
  CHECK(identified == 27);
}

TEST_CASE("probe: what no implementation does gets no confident guess") {
  const int d = 64;
  const std::vector<double> positions = long_and_short_positions();
  ProbeQuestion nothing;
  nothing.head_dim = d;
  const auto refuses = [&](const Dump& dump, const std::string& mistake = std::string(unexplained)) {
    for (const ProbeQuestion& question : {nothing, meant(scaling_of(default_scaling, d, 10000), d)}) {
      const ProbeFinding found = ask(dump, question);
      CHECK(found.verdict == ProbeVerdict::mismatch);
      CHECK(found.mistake == mistake);
      CHECK(found.explained == (mistake != unexplained));
      CHECK(found.found.residual > 0);  // of the nearest account
    }
  };
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  Engine uneven{.inv_freq = plain(d, 10000)};
  for (double& w : uneven.inv_freq) w *= 1 + 0.01 * normal(random);
  refuses(run(uneven, d, positions, 2, DType::f32), "other frequencies");
  refuses(run(uneven, d, positions, 1, DType::bf16), "other frequencies");

  const Engine right{.inv_freq = plain(d, 10000)};
  Dump noisy = run(right, d, positions, 2, DType::f32);
  for (double& v : noisy.output) v += 0.05 * normal(random);
  refuses(noisy);
  Dump unrelated = run(right, d, positions, 2, DType::f32);
  for (double& v : unrelated.output) v = normal(random);
  refuses(unrelated);
  Dump single = run(right, d, {17}, 1, DType::f32);
  for (double& v : single.output) v = normal(random);
  refuses(single);
}

TEST_CASE("probe: the usual roundings of a right engine are no mistake, far out neither") {
  // Hugging Face's and ggml's own f32 chains, where the angle of position 65535 is off by 0.004.
  for (bool running_product : {false, true}) {
    for (double theta : {10000.0, 500000.0}) {
      const int d = 128;
      const std::vector<double> positions = {0, 1, 2, 3, 17, 1000, 4095, 4096, 65535};
      Dump dump = run({.inv_freq = plain(d, theta)}, d, positions, 1, DType::f32);
      for (std::size_t s = 0; s < positions.size(); ++s) {
        auto product = static_cast<float>(positions[s]);
        const float step = std::pow(static_cast<float>(theta), -2.0F / d);
        for (int i = 0; i < d / 2; ++i, product *= step) {
          const float inv = 1 / std::pow(static_cast<float>(theta), static_cast<float>(2 * i) / d);
          const float angle = running_product ? product : static_cast<float>(positions[s]) * inv;
          const float c = std::cos(angle), n = std::sin(angle);
          const std::size_t a = s * d + static_cast<std::size_t>(i), b = a + d / 2;
          const auto x = static_cast<float>(dump.input[a]), y = static_cast<float>(dump.input[b]);
          dump.output[a] = x * c - y * n;
          dump.output[b] = x * n + y * c;
        }
      }
      dump.dump.output = dump.output;
      const ProbeFinding found = ask(dump, meant(scaling_of(default_scaling, d, theta), d));
      CHECK(found.verdict == ProbeVerdict::match);
      // Whether powf or pow made the frequencies hardly shows; a running product does.
      const std::string& profile = found.profile;
      CAPTURE(profile);
      CAPTURE(running_product);
      CHECK((running_product ? profile == "ggml_f32" : profile == "hf_f32" || profile == "f32_inv_freq"));
    }
  }
}

TEST_CASE("probe: a short dump says what it cannot rule out") {
  const int d = 64;
  const ProbeQuestion question = meant(scaling_of(default_scaling, d, 500000), d);
  const Engine right{.inv_freq = plain(d, 500000)};
  const ProbeFinding origin = ask(run(right, d, {0}, 4, DType::f32), question);
  CHECK(origin.verdict == ProbeVerdict::undecided);
  CHECK(origin.mistake == "");
  CHECK(std::find(origin.not_ruled_out.begin(), origin.not_ruled_out.end(), "not rotated") !=
        origin.not_ruled_out.end());

  // At position 1 in bf16 the pairs that the scaling slows down do not visibly rotate.
  RopeScaling s = scaling_of(llama3_scaling, d, 500000);
  s.factor = 8;
  s.original_max_position_embeddings = 131072;
  const ProbeFinding first = ask(run({.inv_freq = llama3(d, 500000, 8, 131072)}, d, {1}, 1, DType::bf16), meant(s, d));
  CHECK(first.verdict == ProbeVerdict::undecided);
  CHECK(std::find(first.not_ruled_out.begin(), first.not_ruled_out.end(), "Llama-3 block ignored") !=
        first.not_ruled_out.end());
  REQUIRE(first.dump_up_to);
  const ProbeFinding further =
      ask(run({.inv_freq = llama3(d, 500000, 8, 131072)}, d, {1, *first.dump_up_to}, 1, DType::bf16), meant(s, d));
  CHECK(further.verdict == ProbeVerdict::match);
}

TEST_CASE("probe: frequencies and tables as an engine has them") {
  const int d = 128;
  RopeScaling s = scaling_of(llama3_scaling, d, 500000);
  s.factor = 8;
  s.original_max_position_embeddings = 8192;
  const ProbeQuestion question = meant(s, d);
  const auto ask_frequencies = [&](const std::vector<double>& w, const ProbeQuestion& q) {
    return examine_frequencies(w, q);
  };
  CHECK(ask_frequencies(llama3(d, 500000, 8, 8192), question).verdict == ProbeVerdict::match);
  CHECK(ask_frequencies(plain(d, 500000), question).mistake == "Llama-3 block ignored");
  CHECK(ask_frequencies(plain(d, 10000), question).mistake.find("base default used") != std::string::npos);
  ProbeQuestion nothing;
  nothing.head_dim = d;
  const ProbeFinding found = ask_frequencies(llama3(d, 500000, 8, 8192), nothing);
  REQUIRE(found.explained);
  CHECK(to_word(found.model.rope.scaling.rope_type) == "llama3");
  CHECK(found.model.rope.scaling.original_max_position_embeddings == 8192);

  // A table: pairs (1, 0) before, (cos, sin) after.
  const auto ask_table = [&](DType type) {
    Dump table;
    const std::vector<double> w = llama3(d, 500000, 8, 8192);
    for (int p = 0; p < 300; ++p) {
      table.dump.positions.push_back(p);
      table.dump.input_rows.push_back(p * d);
      for (int i = 0; i < d; ++i) {
        const double angle = p * w[i % (d / 2)];
        table.input.push_back(i < d / 2 ? 1 : 0);
        table.output.push_back(round_to(type, i < d / 2 ? std::cos(angle) : std::sin(angle)));
      }
    }
    table.dump.input = table.input;
    table.dump.output = table.output;
    table.dump.output_rows = table.dump.input_rows;
    table.dump.head_dim = d;
    table.dump.has_pairing = false;
    table.dump.stored_as = type;
    return examine(table.dump, question, 1);
  };
  CHECK(ask_table(DType::f32).verdict == ProbeVerdict::match);
  CHECK(ask_table(DType::bf16).mistake == "tables in bf16");
}

TEST_CASE("probe: one wrong place among thousands is a mismatch, and is found") {
  const int d = 64;
  std::vector<double> positions;
  for (int p = 0; p < 400; ++p) positions.push_back(p);
  positions.push_back(131071);
  const ProbeQuestion question = meant(scaling_of(default_scaling, d, 500000), d);
  const Engine right{.inv_freq = plain(d, 500000)};
  CHECK(ask(run(right, d, positions, 3, DType::f32), question).verdict == ProbeVerdict::match);

  // The slowest pair, which rotates by 0.3 degrees at 2,000, left as it is.
  Engine still = right;
  still.inv_freq.back() = 0;
  const ProbeFinding unrotated = ask(run(still, d, positions, 3, DType::f32), question);
  CHECK(unrotated.verdict == ProbeVerdict::mismatch);
  CHECK(unrotated.mistake == "pairs not rotated");
  CHECK(unrotated.wrong_pairs == std::vector<std::int64_t>{d / 2 - 1});

  // Frequencies 6e-7 off: 0.08 radians at 131071, where f32 leaves 0.004.
  Engine drifting = right;
  for (double& w : drifting.inv_freq) w *= 1 + 6e-7;
  const ProbeFinding off = ask(run(drifting, d, positions, 3, DType::f32), question);
  CHECK(off.verdict == ProbeVerdict::mismatch);
  CHECK(off.meant->place_error.back() < 0.1);

  // One pair of one head at one position, by 2e-5 radians.
  Dump dump = run(right, d, positions, 3, DType::f32);
  const std::size_t row = (217 * 3 + 1) * d, a = row + 9, b = a + d / 2;
  dump.output[a] = static_cast<float>(dump.output[a] - 2e-5 * dump.output[b]);
  dump.dump.output = dump.output;
  const ProbeFinding place = ask(dump, question);
  CHECK(place.verdict == ProbeVerdict::mismatch);
  CHECK(place.first_wrong_position == 217);
  CHECK(place.wrong_heads == std::vector<std::int64_t>{1});
  CHECK(place.wrong_pairs == std::vector<std::int64_t>{9});
}

TEST_CASE("probe: results do not depend on the number of threads") {
  std::vector<double> positions;
  for (int p = 0; p < 300; ++p) positions.push_back(p);
  const Dump d = run({.inv_freq = plain(64, 20000)}, 64, positions, 3, DType::f32);
  const ProbeQuestion question = meant(scaling_of(default_scaling, 64, 10000), 64);
  const ProbeFinding one = examine(d.dump, question, 1), three = examine(d.dump, question, 3);
  CHECK(one.mistake == three.mistake);
  CHECK(one.meant->place_ratio == three.meant->place_ratio);
  CHECK(one.found.residual == three.found.residual);
}
