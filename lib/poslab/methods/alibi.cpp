#include "poslab/methods/alibi.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <utility>

#include "poslab/methods/list.h"

namespace poslab {

std::vector<double> alibi_slopes(std::int64_t n_heads, double alibi_bias_max) {
  if (n_heads < 1 || n_heads > 1'000'000) {
    throw std::invalid_argument(fmt::format("[alibi_slopes] n_heads must be 1 .. 1000000 but got {}.", n_heads));
  }
  if (!(alibi_bias_max > 0) || !std::isfinite(alibi_bias_max)) {
    throw std::invalid_argument(
        fmt::format("[alibi_slopes] alibi_bias_max must be finite and above 0 but got {}.", alibi_bias_max));
  }
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n_heads)));
  std::vector<double> slopes;
  slopes.reserve(static_cast<std::size_t>(n_heads));
  for (std::int64_t h = 0; h < n_heads; ++h) {
    const std::int64_t step = h < power ? 2 * (h + 1) : 2 * (h - power) + 1;
    slopes.push_back(std::exp2(-alibi_bias_max * static_cast<double>(step) / static_cast<double>(2 * power)));
  }
  return slopes;
}

double alibi_bias(double slope, std::int64_t query_position, std::int64_t key_position) {
  // 0 - x, so that a key at the query's own place gets 0 and not -0.
  return 0.0 - slope * std::abs(static_cast<double>(query_position) - static_cast<double>(key_position));
}

namespace {

class Penalty final : public PositionBias {
 public:
  explicit Penalty(std::vector<double> slopes) : slopes_(std::move(slopes)) {}
  std::int64_t n_heads() const override { return std::ssize(slopes_); }
  double at(std::int64_t head, double query, double key) const override {
    return 0.0 - slopes_[static_cast<std::size_t>(head)] * std::abs(query - key);
  }
  bool falls() const override { return true; }
  std::optional<double> slope(std::int64_t head) const override { return slopes_[static_cast<std::size_t>(head)]; }

 private:
  std::vector<double> slopes_;  // [n_heads]
};

class Alibi final : public Method {
 public:
  std::string_view word() const override { return "alibi"; }
  std::string_view sentence() const override {
    return "takes a fixed slope of each head times the distance off each score";
  }
  std::string_view source() const override { return "Press, Smith and Lewis 2021, arXiv:2108.12409, section 3"; }
  std::string_view used_by() const override { return "BLOOM, MPT, Falcon RW, Baichuan 13B, JAIS"; }
  std::vector<Place> places() const override { return {Place::score_bias}; }
  std::vector<FieldSpec> parameters() const override { return field_specs<AlibiParams>(); }
  void check(const MethodModel& model) const override {
    const double most = model.params.alibi_bias_max;
    if (std::isfinite(most) && most > 0) return;
    throw std::invalid_argument(fmt::format("[method] alibi_bias_max must be above 0 but got {}.", most));
  }
  std::vector<std::pair<std::string_view, std::string_view>> config_keys() const override {
    return {{"alibi_bias_max", "attn_config.alibi_bias_max"}};
  }
  bool depends_on_heads() const override { return true; }
  std::shared_ptr<const PositionBias> bias(const MethodModel& model, std::span<const double>) const override {
    return std::make_shared<Penalty>(alibi_slopes(model.n_heads, model.params.alibi_bias_max));
  }
  // transformers' own classes have slopes of 8 and no key for others.
  bool fits_llama_config(const MethodParams& params) const override { return params.alibi_bias_max == 8; }
  MethodTable table(const TableRequest& request) const override {
    MethodTable out = Method::table(request);
    DistanceTable& table = *out.by_distance;
    table.formula =
        "bias = -slope * |i - j|; slope of head h = 2^(-alibi_bias_max * (h + 1) / n), n the largest power of two that "
        "is "
        "not above n_heads; further heads take every other slope of the series for 2n";
    table.source = "Press et al. 2021, the authors' code; BLOOM, MPT, Falcon";
    const std::vector<double> slopes = alibi_slopes(request.model.n_heads, request.model.params.alibi_bias_max);
    const auto [least, most] = std::minmax_element(slopes.begin(), slopes.end());
    table.conclusion = fmt::format(
        "ALiBi has no vectors: each score loses slope * distance. {} heads, slopes from {:.6g} (near-sighted) to "
        "{:.6g} (far-sighted).\n",
        slopes.size(), *most, *least);
    return out;
  }
};

}  // namespace

const Method& alibi_method() {
  static const Alibi method;
  return method;
}

}  // namespace poslab
