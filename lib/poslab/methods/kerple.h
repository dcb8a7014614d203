// KERPLE's logarithmic kernel: -r1 ln(1 + r2 |i - j|) is added to each score, r1 and r2 learned for each head (Chi et
// al. 2022, arXiv:2205.09921, eq. 4).
#pragma once

#include <optional>

namespace poslab {

class Method;
const Method& kerple_method();

struct KerpleParams {
  std::optional<double> kerple_r1, kerple_r2;

  static void fields(auto& self, auto&& field) {
    field("kerple_r1", self.kerple_r1,
          "kerple: every head's r1 before training; absent: drawn for each head, uniform in 0.01 .. 2", "score");
    field("kerple_r2", self.kerple_r2,
          "kerple: every head's r2 before training; absent: drawn for each head, uniform in 0.01 .. 1", "1/tokens");
  }
};

}  // namespace poslab
