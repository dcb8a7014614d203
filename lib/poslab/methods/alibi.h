// ALiBi: a penalty that grows with distance is added to each attention score; no position vectors at all (Press, Smith,
// Lewis 2021, arXiv:2108.12409).
#pragma once

#include <cstdint>
#include <vector>

namespace poslab {

class Method;
const Method& alibi_method();

struct AlibiParams {
  double alibi_bias_max = 8;

  static void fields(auto& self, auto&& field) {
    field("alibi_bias_max", self.alibi_bias_max, "alibi: the last slope is 2^-alibi_bias_max");
  }
};

// The slope of each head, in score units per token. With p the largest power of two that is not above n_heads:
//   head h = 0 .. p-1        2^(-alibi_bias_max * (h + 1) / p)
//   head h = p .. n_heads-1  2^(-alibi_bias_max * (2 (h - p) + 1) / (2p))   every other slope of the series for 2p
//   heads
// This is the authors' code, which trained checkpoints follow; the paper's sentence (one series for any count) differs
// where n_heads is no power of two. Deployed models agree on it; most have alibi_bias_max 8, some read it from their
// config, and Falcon rounds the slopes to bf16.
// Throws std::invalid_argument "[alibi_slopes] ..." unless n_heads is 1 .. 1,000,000 and alibi_bias_max is finite and
// above 0.
std::vector<double> alibi_slopes(std::int64_t n_heads, double alibi_bias_max = 8);

// What the score of a query at i and a key at j receives: -slope * |i - j|. Some models add slope * j or
// slope * (j - last) instead, which under a causal mask differ from it by a constant per query; softmax drops that.
double alibi_bias(double slope, std::int64_t query_position, std::int64_t key_position);

}  // namespace poslab
