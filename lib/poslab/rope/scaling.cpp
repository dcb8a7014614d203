#include "poslab/rope/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "poslab/rope/scaling_formulas.h"
#include "poslab/rope/scalings.h"

namespace poslab {

std::vector<std::string_view> RopeType::words() {
  std::vector<std::string_view> out;
  for (const Scaling* row : all_scalings) out.push_back(row->word);
  return out;
}

RopeType RopeType::from_word(std::string_view word) {
  for (const Scaling* row : all_scalings) {
    if (row->word == word) return *row;
  }
  throw std::invalid_argument(fmt::format("[RopeType] '{}' is no rope_type.", word));
}

std::string_view RopeType::word() const { return row_->word; }

bool Scaling::has_key(std::string_view key) const {
  return std::ranges::find(config.required, key) != config.required.end() ||
         std::ranges::find(config.optional, key) != config.optional.end();
}

RopeFrequencies rope_frequencies(const RopeScaling& scaling, FollowedLength seq_len) {
  return scaling.rope_type->frequencies(scaling, seq_len);
}

double trained_length(const RopeScaling& scaling) {
  return scaling.rope_type->trained_on_stated_length && scaling.max_position_embeddings
             ? *scaling.max_position_embeddings
             : original_length(scaling);
}

}  // namespace poslab
