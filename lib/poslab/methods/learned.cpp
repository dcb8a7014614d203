#include "poslab/methods/learned.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace poslab {
namespace {

constexpr double standard_deviation = 0.02;
constexpr std::int64_t max_values = std::int64_t{1} << 28;

Tensor<double, 2> draw(std::int64_t rows, std::int64_t d_model, Generator& generator) {
  std::int64_t count = 0;
  if (rows < 1 || d_model < 1 || __builtin_mul_overflow(rows, d_model, &count) || count > max_values) {
    throw std::invalid_argument(fmt::format(
        "[LearnedTable] a drawn table has 1 .. {} values but {} x {} were asked for.", max_values, rows, d_model));
  }
  auto table = make_tensor<double>(rows, d_model);
  generator.standard_normal(flat(table));
  for (double& value : flat(table)) value *= standard_deviation;
  return table;
}

}  // namespace

LearnedTable::LearnedTable(Tensor<double, 2> values) : values_(std::move(values)) {
  if (values_.size() == 0) {
    throw std::invalid_argument(
        fmt::format("[LearnedTable] {} x {} is no table.", max_position_embeddings(), d_model()));
  }
}

LearnedTable::LearnedTable(std::int64_t max_position_embeddings, std::int64_t d_model, Generator& generator)
    : LearnedTable(draw(max_position_embeddings, d_model, generator)) {}

std::span<const double> LearnedTable::row(std::int64_t position) const {
  if (position < 0 || position >= max_position_embeddings()) {
    throw std::invalid_argument(fmt::format(
        "[LearnedTable] there is no vector for position {}: a learned table of {} rows has positions 0 .. {}. Cut the "
        "text, or use an encoding that is computed for any position (sinusoidal, rope, alibi).",
        position, max_position_embeddings(), max_position_embeddings() - 1));
  }
  return poslab::row(values_, position);
}

void require_learned_positions(std::int64_t n_positions, std::int64_t max_position_embeddings) {
  if (n_positions <= max_position_embeddings) return;
  throw std::invalid_argument(fmt::format(
      "[learned_positions] {} tokens do not fit a learned table of {} rows (max_position_embeddings): no vector was "
      "learned beyond position {}. Cut the text to {} tokens (embed does with --overflow truncate), or use an encoding "
      "that is computed for any position "
      "(sinusoidal, rope, alibi).",
      n_positions, max_position_embeddings, max_position_embeddings - 1, max_position_embeddings));
}

}  // namespace poslab
