#include "poslab/methods/sandwich.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <stdexcept>

#include "poslab/methods/list.h"

namespace poslab {

double sandwich_bias(std::int64_t dim, std::int64_t n_heads, std::int64_t head, double distance) {
  if (dim < 2 || dim % 2 != 0 || dim > 1 << 16 || head < 0 || head >= n_heads) {
    throw std::invalid_argument(
        fmt::format("[sandwich_bias] sandwich_dim must be even and 2 .. 65536 and head 0 .. {} but they are {} and {}.",
                    n_heads - 1, dim, head));
  }
  double sum = 0;
  for (std::int64_t i = 1; i <= dim / 2; ++i) {
    sum += std::cos(distance / std::pow(10000, 2 * static_cast<double>(i) / static_cast<double>(dim))) - 1;
  }
  return sum * static_cast<double>(n_heads) / static_cast<double>(8 * (head + 1));
}

namespace {

class Cosines final : public PositionBias {
 public:
  Cosines(std::int64_t dim, std::int64_t n_heads) : dim_(dim), n_heads_(n_heads) {}
  std::int64_t n_heads() const override { return n_heads_; }
  double at(std::int64_t head, double query, double key) const override {
    return sandwich_bias(dim_, n_heads_, head, query - key);
  }

 private:
  std::int64_t dim_, n_heads_;
};

class Sandwich final : public Method {
 public:
  std::string_view word() const override { return "sandwich"; }
  std::string_view sentence() const override {
    return "adds to each score the product of the two positions' sines and cosines, more of it in the first heads";
  }
  std::string_view source() const override { return "Chi et al. 2022, arXiv:2212.10356, section 5"; }
  std::string_view used_by() const override { return "research models"; }
  std::vector<Place> places() const override { return {Place::score_bias}; }
  std::vector<FieldSpec> parameters() const override { return field_specs<SandwichParams>(); }
  void check(const MethodModel& model) const override { sandwich_bias(model.params.sandwich_dim, 1, 0, 0); }
  std::shared_ptr<const PositionBias> bias(const MethodModel& model, std::span<const double>) const override {
    return std::make_shared<Cosines>(model.params.sandwich_dim, model.n_heads);
  }
};

}  // namespace

const Method& sandwich_method() {
  static const Sandwich method;
  return method;
}

}  // namespace poslab
