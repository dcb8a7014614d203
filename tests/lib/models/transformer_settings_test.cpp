#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "golden.h"
#include "poslab/models/adamw.h"
#include "poslab/models/transformer.h"

using namespace poslab;
using nlohmann::json;

namespace {

TransformerConfig config_of(const json& settings) {
  TransformerConfig c;
  c.vocab_size = 7;
  c.encoding = from_word<PositionEncoding>(settings["encoding"].get<std::string>());
  c.norm = from_word<NormKind>(settings["norm"].get<std::string>());
  c.mlp = from_word<MlpKind>(settings["mlp"].get<std::string>());
  const auto set = [&](const char* key, auto& value) {
    if (settings.contains(key)) value = settings[key].get<std::decay_t<decltype(value)>>();
  };
  const auto set_optional = [&](const char* key, std::optional<double>& value) {
    if (settings.contains(key)) value = settings[key].get<double>();
  };
  set("d_model", c.d_model);
  set("n_layers", c.n_layers);
  set("n_heads", c.n_heads);
  set("n_kv_heads", c.n_kv_heads);
  set("head_dim", c.head_dim);
  set("d_ff", c.d_ff);
  set("qkv_bias", c.qkv_bias);
  set("o_bias", c.o_bias);
  set("mlp_bias", c.mlp_bias);
  set("tied_head", c.tied_head);
  set("max_position_embeddings", c.max_position_embeddings);
  set_optional("fire_length", c.method.fire_length);
  set("attention_window", c.attention_window);
  c.rope = plain_rope(c.head_dim);
  if (!c.encoding->acts_on(Place::rotation)) return c;
  c.layout = from_word<RopeLayout>(settings["layout"].get<std::string>());
  c.rope.rope_type = from_word<RopeType>(settings["rope_type"].get<std::string>());
  set("rotary_dim", c.rope.rotary_dim);
  set("rope_theta", c.rope.rope_theta);
  set_optional("factor", c.rope.factor);
  set_optional("original_max_position_embeddings", c.rope.original_max_position_embeddings);
  c.rope.max_position_embeddings = static_cast<double>(c.max_position_embeddings);
  set_optional("attention_factor", c.rope.attention_factor);
  set("beta_fast", c.rope.beta_fast);
  set("beta_slow", c.rope.beta_slow);
  set("low_freq_factor", c.rope.low_freq_factor);
  set("high_freq_factor", c.rope.high_freq_factor);
  set("short_factor", c.rope.short_factor);
  set("long_factor", c.rope.long_factor);
  return c;
}

// The limit of a difference, in units of max(1, |expected|).
bool near(double actual, double expected, double limit) {
  return std::abs(actual - expected) <= limit * std::max(1.0, std::abs(expected));
}

// The logits of each text's last position.
template <class T>
void check_logits(const Transformer<T>& model, std::span<const std::int64_t> tokens, const json& expected,
                  double limit) {
  const auto vocab = static_cast<std::size_t>(model.config().vocab_size), length = tokens.size() / 2;
  const std::vector<T> logits = model.logits(tokens, 2);
  REQUIRE(expected.size() == 2 * vocab);
  for (std::size_t i = 0; i < 2 * vocab; ++i) {
    const std::size_t at = (i / vocab + 1) * length * vocab - vocab + i % vocab;
    CHECK(near(static_cast<double>(logits[at]), expected[i].get<double>(), limit));
  }
}

template <class T>
void check_case(const json& golden_case, double limit) {
  CAPTURE(golden_case["name"].get<std::string>());
  Transformer<T> model(config_of(golden_case["settings"]));
  std::vector<ParameterSpec> specs(model.layout().specs().begin(), model.layout().specs().end());
  std::ranges::sort(specs, {}, &ParameterSpec::name);
  Generator generator(golden_case["seed"].get<std::int64_t>());
  for (const ParameterSpec& spec : specs) {
    for (T& value : model.values(spec.name)) {
      value = static_cast<T>(0.3 * generator.standard_normal() + (spec.name.ends_with("norm.weight") ? 1 : 0));
    }
  }
  std::vector<std::int64_t> tokens, targets;
  for (const json& row : golden_case["text"]) {
    const auto text = row.get<std::vector<std::int64_t>>();
    tokens.insert(tokens.end(), text.begin(), text.end() - 1);
    targets.insert(targets.end(), text.begin() + 1, text.end());
  }
  check_logits(model, tokens, golden_case["logits"], limit);

  AdamW<T> optimiser(model.layout(), {});
  std::vector<T> gradient(model.values().size());
  for (std::size_t step = 0; step < 3; ++step) {
    const double loss = model.loss_and_gradient(tokens, targets, 2, gradient, 2);
    CHECK(near(loss, golden_case["losses"][step].get<double>(), limit));
    if (step == 0) {
      REQUIRE(golden_case["gradient_sums"].size() == specs.size());
      for (const ParameterSpec& spec : specs) {
        CAPTURE(spec.name);
        double sum = 0, size = 0;
        for (std::int64_t i = 0; i < spec.size; ++i) {
          const double probe = generator.standard_normal();
          const auto value = static_cast<double>(gradient[static_cast<std::size_t>(spec.offset + i)]);
          sum += probe * value;
          size += std::abs(probe * value);
        }
        CHECK(std::abs(sum - golden_case["gradient_sums"][spec.name].get<double>()) <= limit * std::max(1.0, size));
      }
    }
    const double norm = gradient_norm<T>(gradient);
    CHECK(near(norm, golden_case["gradient_norms"][step].get<double>(), 4 * limit));
    optimiser.step(model.values(), gradient, norm, 1e-3, 2);
  }
  check_logits(model, tokens, golden_case["logits_after"], limit);
}

}  // namespace

TEST_CASE("every encoding goes with every norm, activation, bias, head and kv head, as in torch") {
  const json cases = golden("transformer_settings.json")["cases"];
  REQUIRE(cases.size() == 22);
  for (const json& golden_case : cases) {
    check_case<double>(golden_case, 1e-12);
    check_case<float>(golden_case, 2e-5);
  }
}
