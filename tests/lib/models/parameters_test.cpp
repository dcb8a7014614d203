#include "poslab/models/parameters.h"

#include <doctest/doctest.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

using namespace poslab;

TEST_CASE("initial weights spread as GPT-2's: 0.02, and 0.02 / sqrt(2 n_layers) where they write the residual") {
  TransformerConfig config;
  config.vocab_size = 96;
  config.d_model = 256;
  config.n_layers = 8;
  config.n_heads = config.n_kv_heads = 8;
  config.head_dim = 32;
  config.d_ff = 512;
  Generator generator(3);
  const ParameterLayout layout(config);
  const std::vector<double> values = initial_parameters(config, generator);
  const auto spread = [&](const std::string& name) {
    const ParameterSpec& spec = layout.spec("model." + name);
    double squares = 0;
    for (double value :
         std::span(values).subspan(static_cast<std::size_t>(spec.offset), static_cast<std::size_t>(spec.size))) {
      squares += value * value;
    }
    return std::sqrt(squares / static_cast<double>(spec.size));
  };
  CHECK(spread("embed_tokens.weight") / 0.02 == doctest::Approx(1).epsilon(0.01));
  for (const char* layer : {"0", "7"}) {
    const std::string prefix = std::string("layers.") + layer + ".";
    for (const char* name : {"self_attn.q_proj.weight", "self_attn.v_proj.weight", "mlp.up_proj.weight"}) {
      CHECK(spread(prefix + name) / 0.02 == doctest::Approx(1).epsilon(0.01));
    }
    for (const char* name : {"self_attn.o_proj.weight", "mlp.down_proj.weight"}) {
      CHECK(spread(prefix + name) / 0.005 == doctest::Approx(1).epsilon(0.01));
    }
    CHECK(spread(prefix + "input_layernorm.weight") == 1);
    CHECK(spread(prefix + "mlp.up_proj.bias") == 0);
  }
}
