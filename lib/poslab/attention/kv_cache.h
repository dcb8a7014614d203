// Decoding with cached keys: what a decoder keeps, and what it does when a RoPE scaling changes its frequencies on the
// way (FollowsLength).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "poslab/attention/attention.h"
#include "poslab/core/fields.h"
#include "poslab/rope/rope.h"
#include "poslab/rope/scaling.h"

namespace poslab {

// The frequencies of a model in a running process, as transformers keeps them from one forward pass to the next:
//
//   growing          the base grows when a pass is longer than all before it, stays when passes become shorter again,
//                    and returns to the trained one with the first pass shorter than the trained length
//   beyond_original  long factors in a pass longer than the original length, short ones otherwise
//   no               nothing changes
class RopeState {
 public:
  explicit RopeState(const RopeScaling& scaling);

  // What a pass whose largest position is seq_len - 1 turns with. Valid until the next call.
  const RopeFrequencies& at(std::int64_t seq_len);
  // growing: the length that the base stands for (transformers' max_seq_len_cached).
  double length() const { return length_; }

 private:
  RopeScaling scaling_;
  double trained_;  // tokens
  double length_;
  RopeFrequencies frequencies_;
};

// What happens to keys in the cache when the frequencies change:
//   keep       nothing: they stay turned as they were when they came
//   re_rotate  keys are cached before turning and turned at every step
//   rebuild    at the change the cache is dropped and filled anew
//   pin        no change: the frequencies of the longest length serve from the start
enum class CachePolicy { keep, re_rotate, rebuild, pin };
constexpr auto words(CachePolicy) {
  return word_table<CachePolicy>({{CachePolicy::keep, "keep"},
                                  {CachePolicy::re_rotate, "re-rotate"},
                                  {CachePolicy::rebuild, "rebuild"},
                                  {CachePolicy::pin, "pin"}});
}

// The keys of one attention layer, one token after another.
class KeyCache {
 public:
  KeyCache(std::int64_t n_kv_heads, std::int64_t head_dim, RopeLayout layout, CachePolicy policy,
           PairGrowth growth = {});

  // Adds tokens and turns keys as the policy says, with the frequencies of this pass (no pairs: nothing turns).
  //   keys [n_tokens, n_kv_heads, head_dim], positions [n_tokens]
  // Throws std::invalid_argument "[KeyCache] ..." when sizes disagree.
  void append(std::span<const double> keys, std::span<const double> positions, const RopeFrequencies& frequencies);

  std::int64_t size() const { return static_cast<std::int64_t>(positions_.size()); }
  const std::vector<double>& positions() const { return positions_; }
  // What queries meet, [n_kv_heads, size, head_dim]. Valid until the next append.
  HeadView<const double> keys() const;
  // Keys of earlier passes that were turned anew so far: the price of the policy.
  std::int64_t keys_redone() const { return keys_redone_; }

 private:
  void turn(std::int64_t first, const RopeFrequencies& frequencies);

  std::int64_t n_kv_heads_, head_dim_;
  RopeLayout layout_;
  CachePolicy policy_;
  PairGrowth growth_;
  std::vector<double> plain_, turned_;  // [size, n_kv_heads, head_dim]
  std::vector<double> positions_;
  RopeFrequencies last_;
  std::int64_t keys_redone_ = 0;
};

}  // namespace poslab
