#include "poslab/methods/learned.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "poslab/methods/learned_table.h"
#include "poslab/methods/list.h"

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
        "text, or use a method that is computed for any position (see poslab list methods).",
        position, max_position_embeddings(), max_position_embeddings() - 1));
  }
  return poslab::row(values_, position);
}

void LearnedTable::fill(std::int64_t first_position, std::span<double> out) const {
  const auto width = static_cast<std::size_t>(d_model());
  for (std::size_t at = 0; at < out.size(); at += width) {
    std::ranges::copy(row(first_position++), out.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

void require_learned_positions(std::int64_t n_positions, std::int64_t max_position_embeddings) {
  if (n_positions <= max_position_embeddings) return;
  throw std::invalid_argument(fmt::format(
      "[learned_positions] {} tokens do not fit a learned table of {} rows (max_position_embeddings): no vector was "
      "learned beyond position {}. Cut the text to {} tokens (embed does with --overflow truncate), or use a method "
      "that is computed for any position (see poslab list methods).",
      n_positions, max_position_embeddings, max_position_embeddings - 1, max_position_embeddings));
}

namespace {

Tensor<double, 2> matrix(std::int64_t rows, std::int64_t columns, std::span<const double> values) {
  auto out = make_tensor<double>(rows, columns);
  std::ranges::copy(values, out.data());
  return out;
}

class Learned final : public Method {
 public:
  std::string_view word() const override { return "learned"; }
  std::string_view sentence() const override {
    return "adds one trained vector per position to the token's vector, and has none beyond its last row";
  }
  std::string_view source() const override {
    return "Gehring et al. 2017, arXiv:1705.03122; Radford et al. 2019 (GPT-2)";
  }
  std::string_view used_by() const override { return "GPT-2, BERT, OPT, GPT-BigCode"; }
  std::vector<Place> places() const override { return {Place::input}; }
  std::optional<std::int64_t> longest_text(const MethodModel& model) const override {
    return model.max_position_embeddings;
  }
  std::vector<MethodTensor> tensors(const MethodModel& model) const override {
    return {{"embed_positions.weight", {model.max_position_embeddings, model.d_model}}};
  }
  void initialise(const MethodModel&, Generator& generator, std::span<double> values) const override {
    generator.standard_normal(values);
    for (double& value : values) value *= standard_deviation;
  }
  std::string input_formula(const MethodParams&) const override { return "row p of the learned table"; }
  bool learns_input() const override { return true; }
  std::unique_ptr<const InputVectors> input(const MethodModel& model, std::vector<double> learned) const override {
    const std::int64_t rows = std::ssize(learned) / model.d_model;
    return std::make_unique<LearnedTable>(matrix(rows, model.d_model, learned));
  }
  MethodTable table(const TableRequest& request) const override {
    const MethodModel& model = request.model;
    std::shared_ptr<const LearnedTable> rows;
    VectorTable table;
    table.name = word();
    if (!request.trained.empty()) {
      require_learned_positions(request.rows, model.max_position_embeddings);
      rows = std::make_shared<LearnedTable>(matrix(model.max_position_embeddings, model.d_model, request.trained));
      table.formula = "one trained vector per position, none beyond the last";
      table.source = request.trained_file;
    } else {
      Generator generator(request.seed);
      rows = std::make_shared<LearnedTable>(request.rows, model.d_model, generator);
      table.formula = "one vector per position, as before training: normal, standard deviation 0.02";
      table.source = fmt::format("numpy.random.default_rng({})", request.seed);
    }
    table.note = fmt::format(" Position {} has none: nothing was learned for it.", request.rows);
    table.columns = model.d_model;
    table.fill = [rows](std::int64_t first, std::span<double> out) { rows->fill(first, out); };
    MethodTable out;
    out.vectors.push_back(std::move(table));
    return out;
  }
};

}  // namespace

const Method& learned_method() {
  static const Learned method;
  return method;
}

}  // namespace poslab
