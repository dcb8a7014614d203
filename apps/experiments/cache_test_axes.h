// Decoding with cached keys whose positions lie on several axes, against one pass over the whole text.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/axes_params.h"
#include "poslab/rope/axis_batches.h"

namespace poslab {

struct AxesDecoding {
  std::int64_t n_heads = 1, n_kv_heads = 1, head_dim = 64;
  std::int64_t prompt_len = 1, batch_size = 1;
  AxisCounting counting = AxisCounting::whole;
  double score_scale = 1;
  std::int64_t seed = 1;
};

struct AxesStep {
  std::int64_t token = 0;
  std::vector<double> position;  // on each axis, as the decoder counts
  double score_diff = 0, weight_diff = 0;
};

// Queries and keys are drawn as cache-test draws them. A key is rotated once, by the position that its pass gives it.
// One step for each token after the prompt.
std::vector<AxesStep> decode_with_axes(const ResolvedAxes& axes, const AxesDecoding& decoding, int threads);

}  // namespace poslab
