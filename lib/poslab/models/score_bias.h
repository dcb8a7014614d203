// The encodings that add a number to each attention score, with the gradients of their own parameters. All layers
// share one set of parameters. Distances are query minus key, in tokens.
//
//   alibi   -slope_h distance; nothing to learn (methods/alibi.h)
//   t5      one learned number per bucket of distances and head, 32 causal buckets up to 128 tokens
//           (methods/relative_bias.h)
//   kerple  -r1 ln(1 + r2 distance), r1 = exp(log_r1[h]), r2 = exp(log_r2[h]): the logarithmic kernel (Chi et al.
//           2022, arXiv:2205.09921, eq. 4)
//   fire    f_h(ln(1 + c distance) / ln(1 + c max(L, query))), f a network of one hidden layer of 32 ReLUs shared by
//           the heads, c = exp(log_c), L = fire_length exp(log_length) (Li et al. 2023, arXiv:2310.04418, eq. 7 and
//           its threshold)
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "poslab/attention/attention_gradient.h"
#include "poslab/core/random.h"
#include "poslab/models/transformer_config.h"

namespace poslab {

struct ScoreBiasTensor {
  std::string name;
  std::vector<std::int64_t> shape;
};

// In the order in which they stand side by side; none for encodings without parameters of this kind.
//   t5      relative_attention_bias.weight [32, n_heads]
//   kerple  kerple.log_r1 [n_heads], kerple.log_r2 [n_heads]
//   fire    fire.hidden.weight [32, 1], fire.hidden.bias [32], fire.out.weight [n_heads, 32], fire.out.bias [n_heads],
//           fire.log_c [1], fire.log_length [1]
std::vector<ScoreBiasTensor> score_bias_tensors(PositionEncoding encoding, std::int64_t n_heads);

// t5: normal(0, 0.02); kerple: r1 uniform in [0.01, 2), r2 in [0.01, 1); fire: hidden uniform in [-1, 1), out in
// [-1, 1) / sqrt(32), c = 0.1, L = fire_length.
void initialise_score_bias(PositionEncoding encoding, std::int64_t n_heads, Generator& generator,
                           std::span<double> values);

// What the scores of a text of seq_len tokens receive; null where the encoding adds nothing to them.
template <class T>
class LearnedScoreBias : public ScoreBias<T> {
 public:
  // gradient (in the tensors' order) += from the sums over all layers, [batch, n_heads, sums_size()].
  virtual void add_to_gradient(std::span<const double> sums, std::span<T> gradient) const = 0;
};
template <class T>
std::unique_ptr<LearnedScoreBias<T>> make_score_bias(const TransformerConfig& config, std::span<const T> parameters,
                                                     std::int64_t seq_len);

}  // namespace poslab
