#include "experiments/stretch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace poslab {

double Stretch::turns(const Pair& pair) const { return trained_length * pair.before / (2 * std::numbers::pi); }

double Stretch::leaves_at(const Pair& pair) const {
  if (turns(pair) >= 1 || pair.after == 0) return std::numeric_limits<double>::infinity();
  // A trained length of L shows the angles of positions 0 .. L - 1; scaled positions fall between them.
  return std::ceil(trained_length * (pair.before / pair.after) * (1 - 1e-12));
}

std::vector<std::int64_t> Stretch::uncovered_pairs() const {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (!covered(pairs[i])) out.push_back(static_cast<std::int64_t>(i));
  }
  return out;
}

std::optional<double> Stretch::first_uncovered_position() const {
  double first = std::numeric_limits<double>::infinity();
  for (const Pair& pair : pairs) first = std::min(first, leaves_at(pair));
  if (std::isinf(first)) return std::nullopt;
  return first;
}

double Stretch::score_change() const {
  double largest = 0;
  const auto look = [&](double distance) {
    largest = std::max(
        largest, std::abs(mean_cosine(*this, distance, &Pair::after) - mean_cosine(*this, distance, &Pair::before)));
  };
  constexpr double dense = 64;
  constexpr int sparse = 192;
  for (double d = 1; d < std::min(dense, trained_length); ++d) look(d);
  if (trained_length <= dense) return largest;
  for (int i = 0; i < sparse; ++i) look(std::floor(dense * std::pow((trained_length - 1) / dense, i / (sparse - 1.0))));
  return largest;
}

Stretch compare_frequencies(const RopeScaling& scaling, const RopeFrequencies& scaled, double trained_theta,
                            double target_length) {
  if (!scaling.original_max_position_embeddings && !scaling.max_position_embeddings) {
    throw std::invalid_argument(
        "[rope] original_max_position_embeddings, the length of pre-training, is needed to say what training covered.");
  }
  RopeScaling unscaled = scaling;
  unscaled.rope_theta = trained_theta;
  if (scaling.rope_type->part_of_training) {
    unscaled.factor.reset();  // pairs that stand still did so in training
  } else {
    unscaled.rope_type = RopeType();
  }
  const std::vector<double> before = rope_frequencies(unscaled).inv_freq;
  Stretch out;
  for (std::size_t i = 0; i < before.size(); ++i) out.pairs.push_back({before[i], scaled.inv_freq[i]});
  out.trained_length = trained_length(scaling);
  out.target_length = target_length;
  return out;
}

double mean_cosine(const Stretch& stretch, double distance, double Pair::*which) {
  double sum = 0;
  for (const Pair& pair : stretch.pairs) sum += std::cos(distance * (pair.*which));
  return sum / static_cast<double>(stretch.pairs.size());
}

double effective_theta(const ResolvedRope& rope) {
  const RopeScaling& s = rope.scaling;
  return s.rope_type->theta ? s.rope_type->theta(s, rope.seq_len) : s.rope_theta;
}

std::string index_ranges(const std::vector<std::int64_t>& indices) {
  std::string text;
  for (std::size_t first = 0, last = 0; first < indices.size(); first = last + 1) {
    last = first;
    while (last + 1 < indices.size() && indices[last + 1] == indices[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += first == last ? fmt::format("{}", indices[first]) : fmt::format("{}-{}", indices[first], indices[last]);
  }
  return text;
}

}  // namespace poslab
