#include "poslab/attention/attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "golden.h"
#include "poslab/methods/list.h"

using namespace poslab;

namespace {

// Numbers without pattern, -1.7 .. 1.7; the tests need no particular stream.
std::vector<double> noise(std::int64_t n, std::uint64_t seed) {
  std::vector<double> out(static_cast<std::size_t>(n));
  for (double& x : out) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    x = (static_cast<double>(seed >> 11) * 0x1p-53 - 0.5) * 3.4;
  }
  return out;
}

template <class T>
std::vector<T> narrowed(const std::vector<double>& x) {
  return {x.begin(), x.end()};
}

template <class T>
struct Inputs {
  Inputs(const AttentionShape& s, std::uint64_t seed = 1)
      : q(narrowed<T>(noise(s.n_heads * s.seq_q * s.head_dim, seed))),
        k(narrowed<T>(noise(s.n_kv_heads * s.seq_k * s.head_dim, seed + 1))),
        v(narrowed<T>(noise(s.n_kv_heads * s.seq_k * s.head_dim, seed + 2))) {}
  std::vector<T> q, k, v;
};

template <class T>
std::vector<T> run(const AttentionShape& s, const AttentionOptions& options, const Inputs<T>& in, int threads = 1) {
  std::vector<T> out(in.q.size(), T{-7});
  attention<T>(s, options, heads_first(in.q.data(), s.seq_q, s.head_dim), heads_first(in.k.data(), s.seq_k, s.head_dim),
               heads_first(in.v.data(), s.seq_k, s.head_dim), heads_first(out.data(), s.seq_q, s.head_dim), threads);
  return out;
}

template <class T>
AttentionTrace reference(const AttentionShape& s, const AttentionOptions& options, const Inputs<T>& in) {
  const std::vector<double> q(in.q.begin(), in.q.end()), k(in.k.begin(), in.k.end()), v(in.v.begin(), in.v.end());
  return attention_reference(s, options, heads_first(q.data(), s.seq_q, s.head_dim),
                             heads_first(k.data(), s.seq_k, s.head_dim), heads_first(v.data(), s.seq_k, s.head_dim));
}

template <class T>
double distance(const std::vector<T>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - b[i]);
    worst = d <= worst ? worst : d;  // keeps a NaN
  }
  return worst;
}

template <class T>
constexpr double tolerance = sizeof(T) == 8 ? 1e-12 : 4e-6;

// The penalty of given slopes.
class Slopes final : public PositionBias {
 public:
  explicit Slopes(std::vector<double> slopes) : slopes_(std::move(slopes)) {}
  std::int64_t n_heads() const override { return std::ssize(slopes_); }
  double at(std::int64_t head, double query, double key) const override {
    return -slopes_[static_cast<std::size_t>(head)] * std::abs(query - key);
  }
  bool falls() const override { return true; }

 private:
  std::vector<double> slopes_;
};

// Numbers by relative position, the ends going on; with `place` the query's position counts too.
class Numbers final : public PositionBias {
 public:
  Numbers(std::int64_t n_heads, bool place) : n_heads_(n_heads), place_(place), numbers_(noise(n_heads * 14, 5)) {}
  std::int64_t n_heads() const override { return n_heads_; }
  bool by_distance() const override { return !place_; }
  double at(std::int64_t head, double query, double key) const override {
    const auto i = static_cast<std::int64_t>(std::clamp(key - query + 9, 0.0, 13.0));
    return numbers_[static_cast<std::size_t>(head * 14 + i)] + (place_ ? std::cos(query + 3 * key) : 0);
  }

 private:
  std::int64_t n_heads_;
  bool place_;
  std::vector<double> numbers_;
};

std::vector<AttentionOptions> every_hook(std::int64_t n_heads, std::int64_t head_dim) {
  std::vector<AttentionOptions> all(6);
  if (head_dim > 1) {
    all[1].rotation = {rope_inv_freq(head_dim / 2 * 2, 100), RopeLayout::half, 1.1, {}};
    all[2].rotation = all[1].rotation;
    all[2].rotation->growth = [n = head_dim / 2](double position) { return xpos_decay(2 * n, position); };
  }
  all[3].bias = std::make_shared<Slopes>(alibi_slopes(n_heads));
  all[4].bias = std::make_shared<Numbers>(n_heads, false);
  all[5].bias = std::make_shared<Numbers>(n_heads, true);
  all[5].rotation = all[1].rotation;
  return all;
}

}  // namespace

TEST_CASE("attention_reference gives the lesson's weights and output") {
  const auto lesson = golden("lesson_shuffle.json");
  const auto x = lesson["X"].get<std::vector<std::vector<double>>>();
  const auto product = [&](const char* name) {
    const auto w = lesson[name].get<std::vector<std::vector<double>>>();
    std::vector<double> out(40);
    for (std::size_t i = 0; i < 5; ++i) {
      for (std::size_t j = 0; j < 8; ++j) {
        for (std::size_t s = 0; s < 8; ++s) out[i * 8 + j] += x[i][s] * w[s][j];
      }
    }
    return out;
  };
  const auto q = product("W_q"), k = product("W_k"), v = product("W_v");
  const AttentionShape shape{1, 1, 5, 5, 8};
  AttentionOptions options;
  const auto check_near = [](const std::vector<double>& mine, const nlohmann::json& rows) {
    std::size_t i = 0;
    for (const auto& row : rows) {
      for (const double value : row) {
        CHECK(std::abs(mine[i++] - value) <= 1e-12 * std::max(1.0, std::abs(value)));
      }
    }
    CHECK(i == mine.size());
  };
  const auto trace = attention_reference(shape, options, heads_first(q.data(), 5, 8), heads_first(k.data(), 5, 8),
                                         heads_first(v.data(), 5, 8));
  check_near(trace.scores, lesson["scores_scaled"]);
  check_near(trace.weights, lesson["weights_mp"]);
  check_near(trace.out, lesson["attention_mp_correctly_rounded"]);
  options.visible = key_ranges(Mask::causal, 5, 5);
  check_near(attention_reference(shape, options, heads_first(q.data(), 5, 8), heads_first(k.data(), 5, 8),
                                 heads_first(v.data(), 5, 8))
                 .out,
             lesson["causal_attention"]);
}

TEST_CASE("key ranges: causal, windows and cached queries") {
  const auto text = [](const std::vector<KeyRange>& ranges) {
    std::string out;
    for (const KeyRange& r : ranges) out += std::to_string(r.begin) + "-" + std::to_string(r.end) + " ";
    return out;
  };
  CHECK(text(key_ranges(Mask::none, 2, 5)) == "0-5 0-5 ");
  CHECK(text(key_ranges(Mask::causal, 3, 3)) == "0-1 0-2 0-3 ");
  CHECK(text(key_ranges(Mask::causal, 2, 5)) == "0-4 0-5 ");
  CHECK(text(key_ranges(Mask::causal, 4, 4, 2)) == "0-1 0-2 1-3 2-4 ");
  CHECK(text(key_ranges(Mask::none, 4, 4, 2)) == "0-2 0-3 1-4 2-4 ");
  CHECK(text(key_ranges(Mask::causal, 3, 1)) == "0-0 0-0 0-1 ");
  CHECK(text(key_ranges(Mask::none, 2, 4, INT64_MAX)) == "0-4 0-4 ");
  CHECK_THROWS_AS(key_ranges(Mask::none, -1, 4), std::invalid_argument);
}

TEST_CASE_TEMPLATE("tiled attention agrees with the plain formula under every hook, mask and instruction set", T,
                   double, float) {
  for (const std::int64_t head_dim : {1, 6, 16, 33, 64, 80}) {
    for (const std::int64_t seq : {1, 2, 11, 12, 13, 97, 129, 300}) {
      if (seq > 97 && head_dim != 6 && head_dim != 64) continue;
      const AttentionShape shape{4, 2, seq, seq, head_dim};
      const Inputs<T> in(shape);
      std::vector<AttentionOptions> hooks = every_hook(4, head_dim);
      for (AttentionOptions& options : hooks) {
        for (const auto& visible :
             {std::vector<KeyRange>{}, key_ranges(Mask::causal, seq, seq), key_ranges(Mask::causal, seq, seq, 20)}) {
          options.visible = visible;
          const std::vector<double> expected = reference(shape, options, in).out;
          for (const Isa isa : supported_isas()) {
            options.isa = isa;
            CAPTURE(to_word(isa));
            CAPTURE(head_dim);
            CAPTURE(seq);
            CAPTURE(&options - hooks.data());
            CHECK(distance(run(shape, options, in), expected) < tolerance<T>);
          }
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("a softmax that has all but decided agrees too", T, double, float) {
  // Queries and keys so large that almost every weight is 0, and a few rows that stay undecided.
  const AttentionShape shape{1, 1, 300, 700, 40};
  Inputs<T> in(shape);
  for (std::size_t i = 0; i < in.q.size(); ++i) in.q[i] *= i / 40 % 13 == 0 ? T{0.1f} : T{500};
  for (const Isa isa : supported_isas()) {
    AttentionOptions options;
    options.isa = isa;
    const AttentionTrace trace = reference(shape, options, in);
    const auto zeros = std::ranges::count_if(trace.weights, [](double w) { return w < 1e-300; });
    CHECK(zeros > 150 * 700);
    CHECK(distance(run(shape, options, in), trace.out) < 100 * tolerance<T>);
  }
}

TEST_CASE_TEMPLATE("ALiBi's far keys, which weigh nothing, are left out without a trace", T, double, float) {
  // Slopes up to 8 per token: the nearest keys push the weights of all others below the smallest number.
  const AttentionShape shape{2, 2, 1500, 1500, 8};
  Inputs<T> in(shape);
  AttentionOptions options;
  options.bias = std::make_shared<Slopes>(std::vector<double>{8, 0.25});
  for (const auto& visible : {std::vector<KeyRange>{}, key_ranges(Mask::causal, 1500, 1500)}) {
    options.visible = visible;
    const std::vector<double> expected = reference(shape, options, in).out;
    CHECK(distance(run(shape, options, in), expected) < tolerance<T>);
  }
  // One far key that outweighs its penalty still counts.
  for (std::size_t c = 0; c < 8; ++c) in.k[c] = in.q[1499 * 8 + c] * T{40000};
  const std::vector<double> expected = reference(shape, options, in).out;
  CHECK(std::abs(expected[1499 * 8] - static_cast<double>(in.v[0])) < 1e-6);
  CHECK(distance(run(shape, options, in), expected) < tolerance<T>);
}

TEST_CASE("the number of threads never changes a bit") {
  const AttentionShape shape{3, 3, 500, 500, 20};
  const Inputs<float> in(shape);
  for (AttentionOptions& options : every_hook(3, 20)) {
    options.visible = key_ranges(Mask::causal, 500, 500);
    const auto one = run(shape, options, in, 1);
    CHECK(run(shape, options, in, 2) == one);
    CHECK(run(shape, options, in, 5) == one);
  }
}

TEST_CASE("a row's output does not depend on its place in a tile") {
  const AttentionShape shape{1, 1, 150, 150, 8};
  Inputs<float> in(shape);
  std::fill_n(in.q.begin() + 37 * 8, 8, 0.5f);
  std::fill_n(in.q.begin() + 149 * 8, 8, 0.5f);
  const auto out = run(shape, {}, in);
  CHECK(std::memcmp(&out[37 * 8], &out[149 * 8], 8 * sizeof(float)) == 0);
}

TEST_CASE_TEMPLATE("cached queries, given positions, left padding and packed sequences", T, double, float) {
  const AttentionShape shape{2, 1, 40, 300, 16};
  const Inputs<T> in(shape);
  std::vector<AttentionOptions> hooks = every_hook(2, 16);
  for (AttentionOptions& options : hooks) {
    options.visible = key_ranges(Mask::causal, 40, 300);
    CHECK(distance(run(shape, options, in), reference(shape, options, in).out) < tolerance<T>);
    // Two packed sequences, positions from 0 in each, the first four keys padding.
    options.key_positions.assign(300, 0);
    options.query_positions.assign(40, 0);
    for (std::size_t j = 4; j < 300; ++j) options.key_positions[j] = static_cast<double>(j < 280 ? j - 4 : j - 280);
    for (std::size_t i = 0; i < 40; ++i) {
      options.query_positions[i] = options.key_positions[260 + i];
      options.visible[i].begin = i < 20 ? 4 : 280;
    }
    CAPTURE(&options - hooks.data());
    CHECK(distance(run(shape, options, in), reference(shape, options, in).out) < tolerance<T>);
  }
}

TEST_CASE("a shift of all positions changes nothing under the relative encodings") {
  const AttentionShape shape{2, 2, 30, 30, 16};
  const Inputs<double> in(shape);
  std::vector<AttentionOptions> hooks = every_hook(2, 16);
  hooks.pop_back();  // it depends on the query's own position
  for (AttentionOptions& options : hooks) {
    const auto at_zero = run(shape, options, in);
    for (std::int64_t i = 0; i < 30; ++i) {
      options.query_positions.push_back(static_cast<double>(1000 + i));
      options.key_positions.push_back(static_cast<double>(1000 + i));
    }
    CHECK(distance(run(shape, options, in), at_zero) < 1e-11);
  }
}

TEST_CASE("what no query sees gives zeros, no keys at all too") {
  AttentionShape shape{1, 1, 2, 3, 4};
  AttentionOptions options;
  options.visible = {{2, 2}, {0, 3}};
  const Inputs<double> in(shape);
  const auto out = run(shape, options, in);
  CHECK(std::vector<double>(out.begin(), out.begin() + 4) == std::vector<double>(4));
  CHECK(out[4] != 0);
  shape.seq_k = 0;
  options.visible.clear();
  CHECK(run(shape, options, in) == std::vector<double>(8));
  shape.seq_q = 0;
  CHECK_NOTHROW(run(shape, options, Inputs<double>(shape)));
}

TEST_CASE_TEMPLATE("scores far apart neither overflow nor lose the largest", T, double, float) {
  const AttentionShape shape{1, 1, 4, 400, 2};
  Inputs<T> in(shape);
  for (T& x : in.q) x *= 1000;
  for (T& x : in.k) x *= 1000;
  CHECK(distance(run(shape, {}, in), reference(shape, {}, in).out) < 1e-3);
  in.k[0] = std::numeric_limits<T>::quiet_NaN();
  for (T x : run(shape, {}, in)) CHECK(std::isnan(x));
}

TEST_CASE("heads side by side in each row are read and written through strides") {
  const AttentionShape shape{2, 2, 30, 30, 8};
  const Inputs<float> in(shape);
  const auto expected = run(shape, {}, in);
  const auto interleave = [](const std::vector<float>& x) {
    std::vector<float> out(x.size());
    for (std::size_t h = 0; h < 2; ++h) {
      for (std::size_t i = 0; i < 30; ++i) std::copy_n(&x[(h * 30 + i) * 8], 8, &out[i * 16 + h * 8]);
    }
    return out;
  };
  const auto q = interleave(in.q), k = interleave(in.k), v = interleave(in.v);
  std::vector<float> out(q.size());
  const auto view = [](auto* data) { return HeadView{data, 8, 16}; };
  attention<float>(shape, {}, view(q.data()), view(k.data()), view(v.data()), view(out.data()), 1);
  CHECK(out == interleave(expected));
}

TEST_CASE("sizes that disagree are refused with a sentence that names them") {
  const auto message = [](AttentionShape shape, const AttentionOptions& options) {
    try {
      std::vector<double> data(1000);
      attention<double>(shape, options, heads_first<const double>(data.data(), 4, 4),
                        heads_first<const double>(data.data(), 4, 4), heads_first<const double>(data.data(), 4, 4),
                        heads_first(data.data(), 4, 4), 1);
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  AttentionOptions options;
  CHECK(message({3, 2, 4, 4, 4}, options) == "[attention] n_heads 3 is not a multiple of n_kv_heads 2.");
  options.bias = std::make_shared<Slopes>(std::vector<double>{0.5});
  CHECK(message({2, 2, 4, 4, 4}, options) == "[attention] the bias has 1 heads but there are 2.");
  options.bias = nullptr;
  options.visible = {{0, 5}, {0, 1}, {0, 1}, {0, 1}};
  CHECK(message({2, 2, 4, 4, 4}, options) == "[attention] keys 0 .. 4 are asked for but there are 4.");
  options.visible.clear();
  options.key_positions = {0, 1};
  CHECK(message({2, 2, 4, 4, 4}, options) == "[attention] there are 2 key_positions for 4 rows.");
}
