// FIRE: a small network maps the distance, relative to the query's position, to the number that each score receives (Li
// et al. 2023, arXiv:2310.04418, eq. 7 and its threshold).
#pragma once

#include <cstdint>
#include <optional>

namespace poslab {

class Method;
const Method& fire_method();

struct FireParams {
  std::optional<double> fire_length;

  static void fields(auto& self, auto&& field) {
    field("fire_length", self.fire_length,
          "fire: L before training, below which all queries share one scale; absent: a quarter of the training length",
          "tokens");
  }
};

// The network of all heads: f_h(ln(1 + c distance) / ln(1 + c max(L, query))), one hidden layer of 32 ReLUs shared by
// the heads, c = exp(log_c), L = fire_length exp(log_length). Learned, in this order:
//   fire.hidden.weight [32, 1], fire.hidden.bias [32], fire.out.weight [n_heads, 32], fire.out.bias [n_heads],
//   fire.log_c [1], fire.log_length [1]
// Before training: hidden uniform in [-1, 1), out in [-1, 1) / sqrt(32), c = 0.1, L = fire_length.
inline constexpr std::int64_t fire_width = 32;

}  // namespace poslab
