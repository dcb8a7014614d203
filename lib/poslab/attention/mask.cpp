#include "poslab/attention/mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace poslab {

std::vector<KeyRange> key_ranges(Mask mask, std::int64_t seq_q, std::int64_t seq_k, std::int64_t window) {
  if (std::min({seq_q, seq_k, window}) < 0) {
    throw std::invalid_argument(fmt::format(
        "[key_ranges] sizes must not be negative but got seq_q {}, seq_k {}, window {}.", seq_q, seq_k, window));
  }
  window = std::min(window, seq_q + seq_k);  // as good as any wider one, which might overflow below
  std::vector<KeyRange> ranges(static_cast<std::size_t>(seq_q), KeyRange{0, seq_k});
  for (std::int64_t i = 0; i < seq_q; ++i) {
    KeyRange& range = ranges[static_cast<std::size_t>(i)];
    const std::int64_t place = i + seq_k - seq_q;
    if (mask == Mask::causal) range.end = std::max<std::int64_t>(0, place + 1);
    if (window > 0) {
      range.begin = std::max<std::int64_t>(0, place - window + 1);
      range.end = std::clamp<std::int64_t>(place + window, 0, range.end);
    }
  }
  return ranges;
}

}  // namespace poslab
