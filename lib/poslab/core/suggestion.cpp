#include "poslab/core/suggestion.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace poslab {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  std::size_t best_distance = 0;
  if (word.size() > 256) return "";  // no name is that long, and the distance takes word x candidate steps
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (!best || distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  const bool near = best && best_distance <= std::max<std::size_t>(2, std::max(word.size(), best->size()) / 2) &&
                    best_distance < best->size();
  return near ? ", did you mean '" + *best + "'?" : "";
}

}  // namespace poslab
