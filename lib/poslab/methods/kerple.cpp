#include "poslab/methods/kerple.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <stdexcept>
#include <vector>

#include "poslab/methods/list.h"

namespace poslab {
namespace {

// From log_r1 [n_heads], log_r2 [n_heads].
class Kernel final : public PositionBias {
 public:
  explicit Kernel(std::span<const double> logs) {
    const std::size_t n = logs.size() / 2;
    for (std::size_t head = 0; head < n; ++head) {
      r1_.push_back(std::exp(logs[head]));
      r2_.push_back(std::exp(logs[n + head]));
    }
  }
  std::int64_t n_heads() const override { return std::ssize(r1_); }
  double at(std::int64_t head, double query, double key) const override {
    const auto h = static_cast<std::size_t>(head);
    return -r1_[h] * std::log1p(r2_[h] * std::abs(query - key));
  }
  bool falls() const override { return true; }
  std::int64_t n_learned() const override { return 2 * n_heads(); }
  void add_gradient(std::int64_t head, std::int64_t distance, double sum, std::span<double> total) const override {
    const auto h = static_cast<std::size_t>(head);
    const double reach = r2_[h] * static_cast<double>(distance);
    total[h] -= sum * r1_[h] * std::log1p(reach);
    total[h + r1_.size()] -= sum * r1_[h] * reach / (1 + reach);
  }

 private:
  std::vector<double> r1_, r2_;  // [n_heads]
};

class Kerple final : public Method {
 public:
  std::string_view word() const override { return "kerple"; }
  std::string_view sentence() const override {
    return "adds -r1 ln(1 + r2 distance) to each score, r1 and r2 learned for each head";
  }
  std::string_view source() const override { return "Chi et al. 2022, arXiv:2205.09921, equation 4 (logarithmic)"; }
  std::string_view used_by() const override { return "research models"; }
  std::vector<Place> places() const override { return {Place::score_bias}; }
  std::vector<FieldSpec> parameters() const override { return field_specs<KerpleParams>(); }
  void check(const MethodModel& model) const override {
    const auto above_zero = [](const char* name, double value) {
      if (std::isfinite(value) && value > 0) return;
      throw std::invalid_argument(fmt::format("[method] {} must be above 0 but got {}.", name, value));
    };
    above_zero("kerple_r1", model.params.kerple_r1.value_or(1));
    above_zero("kerple_r2", model.params.kerple_r2.value_or(1));
  }
  // Kept as logarithms, so that they stay above 0 in training.
  std::vector<MethodTensor> tensors(const MethodModel& model) const override {
    return {{"kerple.log_r1", {model.n_heads}}, {"kerple.log_r2", {model.n_heads}}};
  }
  void initialise(const MethodModel& model, Generator& generator, std::span<double> values) const override {
    constexpr double least = 0.01;
    const auto n = static_cast<std::size_t>(model.n_heads);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double most = i < n ? 2 : 1;
      const double drawn = least + (most - least) * generator.uniform();
      values[i] = std::log((i < n ? model.params.kerple_r1 : model.params.kerple_r2).value_or(drawn));
    }
  }
  std::shared_ptr<const PositionBias> bias(const MethodModel&, std::span<const double> learned) const override {
    return std::make_shared<Kernel>(learned);
  }
};

}  // namespace

const Method& kerple_method() {
  static const Kerple method;
  return method;
}

}  // namespace poslab
