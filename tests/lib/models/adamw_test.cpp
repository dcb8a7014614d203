#include "poslab/models/adamw.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "poslab/models/parameters.h"

using namespace poslab;

namespace {

TransformerConfig small() {
  TransformerConfig config;
  config.vocab_size = 5;
  config.d_model = 4;
  config.n_layers = 1;
  config.n_heads = config.n_kv_heads = 1;
  config.head_dim = config.d_ff = 4;
  config.rope = config.local_rope = plain_rope(4);
  return config;
}

}  // namespace

TEST_CASE("clipping shortens long gradients and leaves short ones alone") {
  const ParameterLayout layout(small());
  AdamWOptions options;
  options.weight_decay = 0;
  const auto moved = [&](double value, double norm) {
    AdamW<double> optimiser(layout, options);
    std::vector<double> parameters(static_cast<std::size_t>(layout.size()), 0.0), gradient(parameters.size(), value);
    optimiser.step(parameters, gradient, norm, 1e-3, 1);
    return parameters.back();
  };
  // One step moves by rate * g / (|g| + epsilon): by half of the rate where g = epsilon = 1e-8.
  CHECK(moved(1e-8, 1e-8) == doctest::Approx(-5e-4).epsilon(1e-9));
  CHECK(moved(1e-8, 0.999) == doctest::Approx(-5e-4).epsilon(1e-9));
  // A norm of 100 divides it by 100.
  CHECK(moved(1e-8, 100) == doctest::Approx(-1e-3 * 1e-10 / (1e-10 + 1e-8)).epsilon(1e-6));
}
