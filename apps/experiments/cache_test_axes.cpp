#include "experiments/cache_test_axes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "poslab/attention/attention.h"
#include "poslab/core/random.h"
#include "poslab/core/threads.h"

namespace poslab {
namespace {

// [n_heads, n, head_dim] of the first n tokens of vectors that lie token by token.
std::vector<double> by_head(const std::vector<double>& tokens, std::int64_t n_heads, std::int64_t n,
                            std::int64_t head_dim) {
  std::vector<double> heads(static_cast<std::size_t>(n_heads * n * head_dim));
  for (std::int64_t head = 0; head < n_heads; ++head) {
    for (std::int64_t token = 0; token < n; ++token) {
      std::copy_n(tokens.begin() + (token * n_heads + head) * head_dim, head_dim,
                  heads.begin() + (head * n + token) * head_dim);
    }
  }
  return heads;
}

struct Rotated {
  std::vector<double> queries, keys;  // [heads, seq_len, head_dim]
};

}  // namespace

std::vector<AxesStep> decode_with_axes(const ResolvedAxes& axes, const AxesDecoding& d, int threads) {
  const AxisPositions meant = axis_positions(axes.segments, axes.position_settings);
  const AxisPositions counted =
      counted_positions(axes.segments, axes.position_settings, d.prompt_len, d.batch_size, d.counting);
  const std::int64_t seq_len = meant.seq_len;
  Generator generator(d.seed);
  const std::vector<double> queries =
      by_head(generator.normals(seq_len * d.n_heads * d.head_dim), d.n_heads, seq_len, d.head_dim);
  const std::vector<double> keys =
      by_head(generator.normals(seq_len * d.n_kv_heads * d.head_dim), d.n_kv_heads, seq_len, d.head_dim);
  const auto rotate = [&](const AxisPositions& positions) {
    Rotated r{queries, keys};
    apply_multi_axis_rope(queries, r.queries, d.n_heads, d.head_dim, positions, axes.rope, axes.layout,
                          axes.attention_factor);
    apply_multi_axis_rope(keys, r.keys, d.n_kv_heads, d.head_dim, positions, axes.rope, axes.layout,
                          axes.attention_factor);
    return r;
  };
  const Rotated whole = rotate(meant), cached = rotate(counted);

  std::vector<AxesStep> steps(static_cast<std::size_t>(seq_len - d.prompt_len));
  parallel_for(seq_len - d.prompt_len, threads, [&](std::int64_t i) {
    const std::int64_t token = d.prompt_len + i, seen = token + 1;
    const auto attend = [&](const Rotated& r) {
      AttentionOptions options;
      options.score_scale = d.score_scale;
      const HeadView<const double> query{r.queries.data() + token * d.head_dim, seq_len * d.head_dim, d.head_dim};
      const auto key = heads_first<const double>(r.keys.data(), seq_len, d.head_dim);
      return attention_reference({d.n_heads, d.n_kv_heads, 1, seen, d.head_dim}, options, query, key, key);
    };
    const AttentionTrace truth = attend(whole), here = attend(cached);
    AxesStep& step = steps[static_cast<std::size_t>(i)];
    step.token = token;
    for (std::int64_t axis = 0; axis < counted.n_axes; ++axis) step.position.push_back(counted.at(axis, token));
    for (std::size_t s = 0; s < truth.scores.size(); ++s) {
      step.score_diff = std::max(step.score_diff, std::abs(here.scores[s] - truth.scores[s]));
      step.weight_diff = std::max(step.weight_diff, std::abs(here.weights[s] - truth.weights[s]));
    }
  });
  return steps;
}

}  // namespace poslab
