#include "poslab/attention/kv_cache.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace poslab {

RopeState::RopeState(const RopeScaling& scaling) : scaling_(scaling), trained_(0), length_(0) {
  if (scaling.rope_type->follows_length != FollowsLength::no) trained_ = trained_length(scaling);
  length_ = trained_;
  frequencies_ = rope_frequencies(scaling);
}

const RopeFrequencies& RopeState::at(std::int64_t seq_len) {
  const auto length = static_cast<double>(seq_len);
  double next = length_;
  switch (scaling_.rope_type->follows_length) {
    case FollowsLength::no:
      break;
    case FollowsLength::growing:
      if (length > length_) next = length;
      if (length < trained_) next = trained_;
      break;
    case FollowsLength::beyond_original:
      next = length > trained_ ? trained_ + 1 : trained_;
      break;
  }
  if (next != length_) {
    length_ = next;
    frequencies_ = rope_frequencies(scaling_, static_cast<std::int64_t>(next));
  }
  return frequencies_;
}

KeyCache::KeyCache(std::int64_t n_kv_heads, std::int64_t head_dim, RopeLayout layout, CachePolicy policy,
                   PairGrowth growth)
    : n_kv_heads_(n_kv_heads), head_dim_(head_dim), layout_(layout), policy_(policy), growth_(std::move(growth)) {
  if (n_kv_heads < 1 || head_dim < 1) {
    throw std::invalid_argument(
        fmt::format("[KeyCache] sizes must be positive but got n_kv_heads {}, head_dim {}.", n_kv_heads, head_dim));
  }
}

void KeyCache::append(std::span<const double> keys, std::span<const double> positions,
                      const RopeFrequencies& frequencies) {
  const std::int64_t before = size();
  if (static_cast<std::int64_t>(keys.size()) != std::ssize(positions) * n_kv_heads_ * head_dim_) {
    throw std::invalid_argument(fmt::format("[KeyCache] {} values are not {} tokens x n_kv_heads {} x head_dim {}.",
                                            keys.size(), positions.size(), n_kv_heads_, head_dim_));
  }
  const bool changed = frequencies.inv_freq != last_.inv_freq || frequencies.attention_factor != last_.attention_factor;
  plain_.insert(plain_.end(), keys.begin(), keys.end());
  turned_.resize(plain_.size());
  positions_.insert(positions_.end(), positions.begin(), positions.end());
  const bool anew = policy_ == CachePolicy::re_rotate || (policy_ == CachePolicy::rebuild && changed);
  turn(anew ? 0 : before, frequencies);
  if (anew) keys_redone_ += before;
  last_ = frequencies;
}

HeadView<const double> KeyCache::keys() const { return {turned_.data(), head_dim_, n_kv_heads_ * head_dim_}; }

void KeyCache::turn(std::int64_t first, const RopeFrequencies& frequencies) {
  // apply_rope wants the heads outside: each token by itself has them so.
  const auto width = static_cast<std::size_t>(n_kv_heads_ * head_dim_);
  for (auto i = static_cast<std::size_t>(first); i < positions_.size(); ++i) {
    apply_rope<double>(std::span(plain_).subspan(i * width, width), std::span(turned_).subspan(i * width, width),
                       n_kv_heads_, head_dim_, std::span(positions_).subspan(i, 1), frequencies.inv_freq, layout_,
                       frequencies.attention_factor);
    if (!growth_) continue;
    for (std::int64_t head = 0; head < n_kv_heads_; ++head) {
      const std::span<double> rotated(turned_.data() + i * width + static_cast<std::size_t>(head * head_dim_),
                                      static_cast<std::size_t>(head_dim_));
      grow_pairs<double>(rotated, head_dim_, std::span(positions_).subspan(i, 1), growth_, true, layout_);
    }
  }
}

}  // namespace poslab
