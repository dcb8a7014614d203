// Which keys each query sees.
#pragma once

#include <cstdint>
#include <vector>

#include "poslab/core/fields.h"

namespace poslab {

enum class Mask { none, causal };
constexpr auto words(Mask) { return word_table<Mask>({{Mask::none, "none"}, {Mask::causal, "causal"}}); }

// A query sees keys begin .. end - 1 (places in the key array, whatever their positions); none where end <= begin.
// Causal masks, windows, left padding and packed sequences are all of this form.
struct KeyRange {
  std::int64_t begin = 0, end = 0;
};

// One range per query. Query i stands at key i + seq_k - seq_q: with a cache the queries are the newest tokens.
//
//   none, window 0     all keys
//   causal             keys up to the query's own place
//   window w > 0       of these, those fewer than w places away
//
// Throws std::invalid_argument "[key_ranges] ..." for negative sizes.
std::vector<KeyRange> key_ranges(Mask mask, std::int64_t seq_q, std::int64_t seq_k, std::int64_t window = 0);

}  // namespace poslab
