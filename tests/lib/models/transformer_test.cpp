#include "poslab/models/transformer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "golden.h"
#include "poslab/models/adamw.h"
#include "poslab/rope/scalings.h"

using namespace poslab;

namespace {

// A golden model: its json, and its tensors by name.
struct Golden {
  explicit Golden(const std::string& file) : json(golden(file + ".json")) {
    const std::string folder = file.substr(0, file.find('/') + 1);
    std::ifstream in(golden_path(folder + json["bin"].get<std::string>()), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    for (const auto& t : json["tensors"]) {
      std::size_t size = 1;
      for (const auto& n : t["shape"]) size *= n.get<std::size_t>();
      std::vector<double>& values = tensors[t["name"]];
      values.resize(size);
      std::memcpy(values.data(), bytes.data() + t["offset_f64"].get<std::size_t>() * 8, size * 8);
    }
    for (const auto& row : json["tokens"]) {
      const auto text = row.get<std::vector<std::int64_t>>();
      tokens.insert(tokens.end(), text.begin(), text.end() - 1);
      targets.insert(targets.end(), text.begin() + 1, text.end());
    }
    batch = json["B"];
  }
  nlohmann::json json;
  std::map<std::string, std::vector<double>> tensors;
  std::vector<std::int64_t> tokens, targets;
  std::int64_t batch;
};

TransformerConfig config_of(const nlohmann::json& json, bool llama) {
  TransformerConfig c;
  c.vocab_size = json["V"];
  c.d_model = json["d"];
  c.n_layers = json["L"];
  c.n_heads = json["H"];
  c.n_kv_heads = llama ? json["n_kv_heads"].get<std::int64_t>() : c.n_heads;
  c.head_dim = llama ? json["head_dim"].get<std::int64_t>() : c.d_model / c.n_heads;
  c.d_ff = llama ? json["hidden"].get<std::int64_t>() : 4 * c.d_model;
  c.max_position_embeddings = 12;
  c.rope = plain_rope(c.head_dim);
  if (llama) {
    c.norm = NormKind::rms_norm;
    c.mlp = MlpKind::swiglu;
    c.set_biases(false);
    c.tied_head = json["config"]["tie_word_embeddings"];
  }
  const std::string method = llama ? json["position"]["method"] : json["method"];
  c.encoding = method == "nope" ? PositionEncoding("none") : from_word<PositionEncoding>(method);
  if (llama && json["position"].value("layout", "half") == "interleaved") c.layout = RopeLayout::interleaved;
  if (llama && json["position"].contains("scaling")) {
    c.rope.rope_type = yarn_scaling;
    c.rope.factor = 4;
    c.rope.original_max_position_embeddings = 8;
  }
  return c;
}

// The golden tensors that make up one of ours, side by side: names of ours are Llama's, gpt_tiny has its own.
std::vector<double> expected(const Golden& g, const std::string& prefix, const std::string& name) {
  if (const auto found = g.tensors.find(prefix + name); found != g.tensors.end()) return found->second;
  const std::map<std::string, std::string> renamed = {{"input_layernorm", "ln1"},
                                                      {"post_attention_layernorm", "ln2"},
                                                      {"self_attn.o_proj", "o"},
                                                      {"mlp.up_proj", "w1"},
                                                      {"mlp.down_proj", "w2"}};
  if (name == "model.embed_tokens.weight") return g.tensors.at(prefix + "tok");
  if (name == "model.embed_positions.weight") return g.tensors.at(prefix + "pos");
  if (name.starts_with("model.norm.")) return g.tensors.at(prefix + "lnf." + name.substr(11));
  const std::string layer = prefix + "blocks." + name.substr(13, name.find('.', 13) - 12);
  const std::string part = name.substr(name.find('.', 13) + 1);
  const std::string module = part.substr(0, part.rfind('.')), kind = part.substr(part.rfind('.'));
  if (const auto found = renamed.find(module); found != renamed.end()) {
    return g.tensors.at(layer + found->second + kind);
  }
  const std::vector<double>& fused = g.tensors.at(layer + "qkv" + kind);
  const std::size_t third = fused.size() / 3;
  const std::size_t at = module == "self_attn.q_proj" ? 0 : module == "self_attn.k_proj" ? third : 2 * third;
  return {fused.begin() + static_cast<std::ptrdiff_t>(at), fused.begin() + static_cast<std::ptrdiff_t>(at + third)};
}

// The largest difference, in units of max(1, |expected|).
template <class A>
double distance(const A& actual, const std::vector<double>& expected, bool relative) {
  REQUIRE(actual.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double unit = relative ? std::max(1.0, std::abs(expected[i])) : 1;
    const double difference = std::abs(static_cast<double>(actual[i]) - expected[i]) / unit;
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

struct Tolerance {
  double logits, loss, gradient, parameters;
};
constexpr Tolerance f64_tolerance = {1e-12, 1e-12, 1e-12, 1e-12};
constexpr Tolerance f32_tolerance = {2e-5, 2e-6, 5e-6, 5e-6};

template <class T>
void check_golden(const std::string& file, const Tolerance& tolerance, int threads) {
  CAPTURE(file);
  const Golden g(file);
  Transformer<T> model(config_of(g.json, file.starts_with("llama")));
  const auto compare_all = [&](const std::string& prefix, std::span<const T> values, double limit) {
    for (const ParameterSpec& spec : model.layout().specs()) {
      // Unless keys turn, their bias has gradient 0 in exact arithmetic: Adam's first steps follow rounding alone.
      const bool rounding = spec.name.ends_with("k_proj.bias") && model.config().encoding != PositionEncoding("rope");
      if (rounding && prefix != "grad.") continue;
      CAPTURE(prefix + spec.name);
      const auto part = values.subspan(static_cast<std::size_t>(spec.offset), static_cast<std::size_t>(spec.size));
      CHECK(distance(part, expected(g, prefix, spec.name), sizeof(T) == 8) <= limit);
    }
  };
  for (const ParameterSpec& spec : model.layout().specs()) {
    const std::vector<double> values = expected(g, "param.", spec.name);
    const std::span<T> to = model.values(spec.name);
    REQUIRE(values.size() == to.size());
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<T>(values[i]);
  }
  CHECK(distance(model.logits(g.tokens, g.batch), g.tensors.at("logits"), sizeof(T) == 8) <= tolerance.logits);
  double mean = 0;
  for (const TokenScore& score : model.score(g.tokens, g.targets, g.batch)) mean += score.nll;
  mean /= static_cast<double>(g.tokens.size());
  CHECK(std::abs(mean - g.json["loss"].get<double>()) <= tolerance.loss * std::max(1.0, mean));
  if (!g.tensors.contains("after1.model.norm.weight") && !g.tensors.contains("after1.lnf.weight")) return;

  AdamW<T> optimiser(model.layout(), {});
  std::vector<T> gradient(model.values().size());
  for (std::size_t step = 0; step < 3; ++step) {
    const double loss = model.loss_and_gradient(g.tokens, g.targets, g.batch, gradient, threads);
    const auto& [golden_loss, golden_norm] =
        g.json["steps_loss_and_gradnorm_before_clip"][step].get<std::pair<double, double>>();
    CHECK(std::abs(loss - golden_loss) <= tolerance.loss * std::max(1.0, golden_loss));
    if (step == 0) compare_all("grad.", gradient, tolerance.gradient);
    const double norm = gradient_norm<T>(gradient);
    optimiser.step(model.values(), gradient, norm, 1e-3, threads);
    CHECK(std::abs(norm - golden_norm) <= tolerance.gradient * 4 * std::max(1.0, golden_norm));
    if (step == 0) compare_all("after1.", model.values(), tolerance.parameters);
    if (step == 2) compare_all("after3.", model.values(), tolerance.parameters);
  }
}

const char* const golden_models[] = {"gpt_tiny/gpt_tiny_learned",
                                     "gpt_tiny/gpt_tiny_rope",
                                     "gpt_tiny/gpt_tiny_alibi",
                                     "gpt_tiny/gpt_tiny_nope",
                                     "llama_tiny/llama_tiny_rope_half",
                                     "llama_tiny/llama_tiny_rope_half_tied",
                                     "llama_tiny/llama_tiny_yarn",
                                     "llama_tiny/llama_tiny_alibi",
                                     "llama_tiny/llama_tiny_none",
                                     "llama_tiny/llama_tiny_rope_half_permuted",
                                     "llama_tiny/llama_tiny_rope_half_bf16"};

TransformerConfig small(PositionEncoding encoding) {
  TransformerConfig c;
  c.vocab_size = 7;
  c.d_model = 8;
  c.n_layers = 2;
  c.n_heads = 4;
  c.n_kv_heads = 2;
  c.head_dim = 4;
  c.d_ff = 12;
  c.max_position_embeddings = 32;
  c.rope = plain_rope(4, 100);
  c.encoding = encoding;
  c.method.fire_length = 6;  // queries on both sides of it
  return c;
}

std::vector<std::int64_t> drawn_tokens(std::int64_t n, std::int64_t vocab, std::int64_t seed) {
  Generator generator(seed);
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < n; ++i) tokens.push_back(generator.integer(0, vocab));
  return tokens;
}

}  // namespace

TEST_CASE("a model's logits, loss, gradients and steps are torch's, in f64") {
  for (const char* file : golden_models) check_golden<double>(file, f64_tolerance, 2);
}

TEST_CASE("a model's logits, loss, gradients and steps are torch's, in f32") {
  for (const char* file : golden_models) check_golden<float>(file, f32_tolerance, 2);
}

TEST_CASE("every encoding's gradient is the slope of the loss") {
  for (const std::string_view word : PositionEncoding::words()) {
    const PositionEncoding encoding(word);
    for (std::int64_t window : {0, 5}) {
      CAPTURE(word);
      CAPTURE(window);
      TransformerConfig config = small(encoding);
      config.attention_window = window;
      config.mlp = window == 0 ? MlpKind::gelu : MlpKind::swiglu;
      Generator generator(3);
      Transformer<double> model(config, generator);
      // Far from the small values at the start, so that every part matters.
      for (double& value : model.values()) value += 0.3 * generator.standard_normal();
      const std::int64_t seq_len = 19;
      const auto tokens = drawn_tokens(2 * seq_len, config.vocab_size, 4);
      auto targets = drawn_tokens(2 * seq_len, config.vocab_size, 5);
      targets[3] = targets[30] = no_target;
      std::vector<double> gradient(model.values().size());
      const double loss = model.loss_and_gradient(tokens, targets, 2, gradient, 1);
      const auto loss_alone = [&] {
        double sum = 0;
        for (const TokenScore& score : model.score(tokens, targets, 2)) sum += score.nll;
        return sum / static_cast<double>(2 * seq_len - 2);
      };
      CHECK(std::abs(loss - loss_alone()) < 1e-12);
      for (const ParameterSpec& spec : model.layout().specs()) {
        CAPTURE(spec.name);
        // Every parameter of the encoding itself, a few of each other tensor.
        const bool own = spec.name.find("layers.") == std::string::npos && spec.name.find("norm") == std::string::npos;
        const std::int64_t stride = own ? 1 : std::max<std::int64_t>(1, spec.size / 3);
        for (std::int64_t i = 0; i < spec.size; i += stride) {
          double& value = model.values()[static_cast<std::size_t>(spec.offset + i)];
          const double kept = value, h = 1e-5;
          value = kept + h;
          const double above = loss_alone();
          value = kept - h;
          const double below = loss_alone();
          value = kept;
          CHECK(std::abs((above - below) / (2 * h) - gradient[static_cast<std::size_t>(spec.offset + i)]) < 2e-8);
        }
      }
    }
  }
}

TEST_CASE("xPos scores fade with the distance and do not depend on where the text begins") {
  // One layer sees a text; the same tokens after padding that a window hides give the same logits.
  TransformerConfig config = small(PositionEncoding("xpos"));
  config.n_layers = 1;
  config.attention_window = 4;
  Generator generator(8);
  Transformer<double> model(config, generator);
  const auto text = drawn_tokens(20, config.vocab_size, 9);
  std::vector<std::int64_t> later(13, 1);
  later.insert(later.end(), text.begin(), text.end());
  const auto near = model.logits(text, 1), far = model.logits(later, 1);
  const auto vocab = static_cast<std::size_t>(config.vocab_size);
  for (std::size_t i = 4 * vocab; i < near.size(); ++i)
    CHECK(near[i] == doctest::Approx(far[13 * vocab + i]).epsilon(1e-12));
}

TEST_CASE("results do not depend on the number of threads") {
  for (PositionEncoding encoding : {PositionEncoding("rope"), PositionEncoding("fire")}) {
    TransformerConfig config = small(encoding);
    config.d_model = 32;
    config.head_dim = 8;
    config.rope = plain_rope(8);
    Generator generator(1);
    Transformer<float> model(config, generator);
    const auto tokens = drawn_tokens(6 * 150, config.vocab_size, 2),
               targets = drawn_tokens(6 * 150, config.vocab_size, 3);
    std::vector<float> one(model.values().size()), three(one.size());
    const double loss = model.loss_and_gradient(tokens, targets, 6, one, 1);
    CHECK(loss == model.loss_and_gradient(tokens, targets, 6, three, 3));
    CHECK(std::memcmp(one.data(), three.data(), one.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("a causal model never looks ahead, and a batch is its texts one by one") {
  for (const std::string_view word : PositionEncoding::words()) {
    const PositionEncoding encoding(word);
    CAPTURE(word);
    Generator generator(1);
    const TransformerConfig config = small(encoding);
    const Transformer<double> model(config, generator);
    auto tokens = drawn_tokens(24, config.vocab_size, 2);
    const auto both = model.logits(tokens, 2);
    const auto second = model.logits(std::span(tokens).subspan(12), 1);
    const std::size_t half = both.size() / 2;
    for (std::size_t i = 0; i < half; ++i) CHECK(both[half + i] == doctest::Approx(second[i]).epsilon(1e-13));
    tokens[11] = (tokens[11] + 1) % config.vocab_size;
    const auto changed = model.logits(tokens, 2);
    for (std::size_t i = 0; i < half - 7; ++i) CHECK(both[i] == changed[i]);
  }
}

TEST_CASE("a model refuses what it cannot read") {
  Generator generator(1);
  const Transformer<float> model(small(PositionEncoding("learned")), generator);
  const auto refused = [&](std::vector<std::int64_t> tokens, std::int64_t batch) -> std::string {
    try {
      model.logits(tokens, batch);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  CHECK(refused({1, 7}, 1) == "[transformer] token 7 is not 0 .. 6.");
  CHECK(refused({1, 2, 3}, 2) == "[transformer] 3 tokens do not make 2 texts of one length.");
  CHECK(refused(std::vector<std::int64_t>(33, 1), 1).find("33") != std::string::npos);
  TransformerConfig odd = small(PositionEncoding("rope"));
  odd.n_kv_heads = 3;
  CHECK_THROWS_WITH_AS(Transformer<float>{odd}, "[transformer] n_heads 4 is not a multiple of n_kv_heads 3.",
                       std::invalid_argument);
}

TEST_CASE("the schedule warms up, then falls along half a cosine") {
  CHECK(cosine_schedule(1, 0, 100, 10) == 0.1);
  CHECK(cosine_schedule(1, 9, 100, 10) == 1);
  CHECK(cosine_schedule(1, 10, 100, 10) == 1);
  CHECK(cosine_schedule(1, 55, 100, 10) == doctest::Approx(0.55));
  CHECK(cosine_schedule(2, 100, 100, 10) == doctest::Approx(0.2));
}

TEST_CASE_TEMPLATE("where logits are no numbers, neither is the score", T, float, double) {
  TransformerConfig config = small(PositionEncoding("rope"));
  config.vocab_size = 4500;
  config.tied_head = false;
  Generator generator(3);
  Transformer<T> model(config, generator);
  const auto tokens = drawn_tokens(20, config.vocab_size, 4), targets = drawn_tokens(20, config.vocab_size, 5);
  // A token's head in the first, the middle or the last of the tiles that logits are computed in.
  for (const std::int64_t broken : {5, 3000, 4499}) {
    const std::int64_t at = ParameterLayout(config).head + broken * config.d_model;
    const T kept = std::exchange(model.values()[static_cast<std::size_t>(at)], std::numeric_limits<T>::quiet_NaN());
    for (const TokenScore& score : model.score(tokens, targets, 1)) {
      CHECK(std::isnan(score.nll));
      CHECK(score.best == no_target);
    }
    model.values()[static_cast<std::size_t>(at)] = kept;
  }
  for (const TokenScore& score : model.score(tokens, targets, 1)) CHECK(std::isfinite(score.nll));
}

TEST_CASE_TEMPLATE("scores of a large vocabulary and a long text are those of the logits", T, float, double) {
  TransformerConfig config = small(PositionEncoding("rope"));
  config.vocab_size = 4500;
  config.tied_head = true;
  Generator generator(3);
  Transformer<T> model(config, generator);
  for (T& value : model.values()) value += static_cast<T>(0.2 * generator.standard_normal());
  const std::int64_t seq_len = 1100;
  const auto tokens = drawn_tokens(seq_len, config.vocab_size, 4);
  auto targets = drawn_tokens(seq_len, config.vocab_size, 5);
  std::fill_n(targets.begin(), 600, no_target);
  targets[2] = 7;
  ForwardOptions options;
  options.threads = 3;
  const auto scores = model.score(tokens, targets, 1, options);
  const std::vector<T> logits = model.logits(tokens, 1);
  const double tolerance = sizeof(T) == 4 ? 2e-5 : 1e-12;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == no_target) {
      CHECK(scores[i].nll == 0);
      continue;
    }
    const T* row = logits.data() + static_cast<std::int64_t>(i) * config.vocab_size;
    const T* best = std::max_element(row, row + config.vocab_size);
    double sum = 0;
    for (std::int64_t v = 0; v < config.vocab_size; ++v) sum += std::exp(static_cast<double>(row[v] - *best));
    const double nll = std::log(sum) + static_cast<double>(*best - row[targets[i]]);
    CHECK(std::abs(scores[i].nll - nll) < tolerance * std::max(1.0, nll));
    CHECK(scores[i].best == best - row);
  }
  const auto alone = model.score(tokens, targets, 1);
  CHECK(std::equal(scores.begin(), scores.end(), alone.begin(),
                   [](const TokenScore& a, const TokenScore& b) { return a.nll == b.nll && a.best == b.best; }));
}
