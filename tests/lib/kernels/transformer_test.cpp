#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "poslab/kernels/isa.h"
#include "poslab/kernels/transformer.kernel.h"

using namespace poslab;

TEST_CASE("the largest logit counts wherever it stands in a row, on every instruction set") {
  for (Isa isa : supported_isas()) {
    const kernels::TransformerKernels& kernel = POSLAB_CHOOSE_ISA(isa, transformer_kernels);
    for (std::int64_t n = 1; n <= 70; ++n) {
      for (std::int64_t largest = 0; largest < n; ++largest) {
        std::vector<float> logits(static_cast<std::size_t>(n), 0.0F);
        logits[static_cast<std::size_t>(largest)] = 200;  // exp(200) is no float: a maximum that misses it overflows
        CAPTURE(n);
        CAPTURE(largest);
        CHECK(kernel.log_sum_exp(n, logits.data(), 0) == 200);
        CHECK(kernel.log_sum_exp(n, logits.data(), 0.5F) == 200);
        CHECK(logits[static_cast<std::size_t>(largest)] == 0.5F);
      }
    }
    std::vector<float> seventeen(17, 0.0F);
    CHECK(kernel.log_sum_exp(17, seventeen.data(), 0) == doctest::Approx(std::log(17.0)).epsilon(1e-6));
  }
}
