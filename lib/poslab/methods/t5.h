// T5's relative bias: distances fall into buckets, and each head learns one number per bucket, added to the score
// (Raffel et al. 2019, arXiv:1910.10683, section 2.1; the bucket rule is that of T5's code). Self-attention only: T5
// has no bias in cross-attention.
#pragma once

#include <cstdint>

namespace poslab {

class Method;
const Method& t5_method();

struct T5Params {
  bool bidirectional = true;
  std::int64_t num_buckets = 32, max_distance = 128;

  static void fields(auto& self, auto&& field) {
    field("bidirectional", self.bidirectional, "t5: keys after the query have buckets of their own");
    field("num_buckets", self.num_buckets, "t5: buckets for both directions", "buckets");
    field("max_distance", self.max_distance, "t5: from here on all distances share the last bucket", "tokens");
  }
};

// The bucket, 0 .. num_buckets - 1, of a relative position (key minus query, in tokens).
//
//   bidirectional   keys after the query have the upper half of the buckets; each half works as below
//   causal          keys after the query share bucket 0 with the query itself
//   near            distance < n/2: a bucket each (n = buckets of the direction)
//   far             n/2 + floor(ln(distance / (n/2)) / ln(max_distance / (n/2)) * (n - n/2)), at most n - 1
//
// The far rule is computed in f32, as upstream does it. Throws std::invalid_argument "[t5_bucket] ..." when a direction
// has fewer than 2 buckets, num_buckets is above 1,000,000, or max_distance is not above half of a direction's buckets.
std::int64_t t5_bucket(std::int64_t relative_position, bool bidirectional, std::int64_t num_buckets = 32,
                       std::int64_t max_distance = 128);

}  // namespace poslab
