#include "poslab/methods/t5.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "poslab/methods/list.h"

namespace poslab {

std::int64_t t5_bucket(std::int64_t relative_position, bool bidirectional, std::int64_t num_buckets,
                       std::int64_t max_distance) {
  const std::int64_t per_direction = bidirectional ? num_buckets / 2 : num_buckets;
  const std::int64_t near = per_direction / 2;
  if (near < 1 || num_buckets > 1'000'000) {
    throw std::invalid_argument(
        fmt::format("[t5_bucket] num_buckets must be {} .. 1000000 but got {}.", bidirectional ? 4 : 2, num_buckets));
  }
  if (max_distance <= near) {
    throw std::invalid_argument(fmt::format(
        "[t5_bucket] max_distance must be above {} (half of a direction's buckets) but got {}.", near, max_distance));
  }
  const bool after = relative_position > 0;
  const std::int64_t offset = bidirectional && after ? per_direction : 0;
  if (!bidirectional && after) return 0;
  // Unsigned, since -INT64_MIN does not fit.
  const auto bits = static_cast<std::uint64_t>(relative_position);
  const std::uint64_t distance = after ? bits : 0 - bits;
  if (distance < static_cast<std::uint64_t>(near)) return offset + static_cast<std::int64_t>(distance);
  const auto span = static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(near)));
  const float far = std::log(static_cast<float>(distance) / static_cast<float>(near)) / span *
                    static_cast<float>(per_direction - near);
  return offset + std::min(near + static_cast<std::int64_t>(far), per_direction - 1);
}

namespace {

class Buckets final : public PositionBias {
 public:
  Buckets(const T5Params& params, bool bidirectional, std::int64_t n_heads, std::span<const double> table)
      : params_(params),
        bidirectional_(bidirectional),
        n_heads_(n_heads),
        table_(table.begin(), table.end()),
        bucket_of_(static_cast<std::size_t>(2 * params.max_distance + 1)) {
    for (std::int64_t relative = -params.max_distance; relative <= params.max_distance; ++relative) {
      bucket_of_[static_cast<std::size_t>(relative + params.max_distance)] = bucket(relative);
    }
  }
  std::int64_t n_heads() const override { return n_heads_; }
  double at(std::int64_t head, double query, double key) const override {
    // Constant from max_distance on.
    const auto most = static_cast<double>(params_.max_distance);
    const auto relative = static_cast<std::int64_t>(std::clamp(std::floor(key - query), -most, most));
    const std::int64_t bucket = bucket_of_[static_cast<std::size_t>(relative + params_.max_distance)];
    return table_[static_cast<std::size_t>(bucket * n_heads_ + head)];
  }
  std::int64_t n_learned() const override { return std::ssize(table_); }
  void add_gradient(std::int64_t head, std::int64_t distance, double sum, std::span<double> total) const override {
    total[static_cast<std::size_t>(bucket(-distance) * n_heads_ + head)] += sum;
  }

 private:
  std::int64_t bucket(std::int64_t relative) const {
    return t5_bucket(relative, bidirectional_, params_.num_buckets, params_.max_distance);
  }

  const T5Params params_;
  const bool bidirectional_;
  const std::int64_t n_heads_;
  const std::vector<double> table_;      // [num_buckets, n_heads]
  std::vector<std::int64_t> bucket_of_;  // [2 max_distance + 1]
};

class T5 final : public Method {
 public:
  std::string_view word() const override { return "t5"; }
  std::string_view sentence() const override {
    return "adds to each score a learned number of the head for the bucket that the distance falls into";
  }
  std::string_view source() const override { return "Raffel et al. 2019, arXiv:1910.10683, section 2.1, and its code"; }
  std::string_view used_by() const override { return "T5, mT5, UMT5, LongT5, MPNet"; }
  std::vector<Place> places() const override { return {Place::score_bias}; }
  std::vector<FieldSpec> parameters() const override { return field_specs<T5Params>(); }
  void check(const MethodModel& model) const override {
    t5_bucket(0, both_ways(model), model.params.num_buckets, model.params.max_distance);  // or throws
    constexpr std::int64_t most = 1 << 24;
    if (model.params.max_distance <= most) return;
    throw std::invalid_argument(
        fmt::format("[t5_bucket] max_distance must be at most {} but got {}.", most, model.params.max_distance));
  }
  std::vector<MethodTensor> tensors(const MethodModel& model) const override {
    return {{"relative_attention_bias.weight", {model.params.num_buckets, model.n_heads}}};
  }
  void initialise(const MethodModel&, Generator& generator, std::span<double> values) const override {
    generator.standard_normal(values);
    for (double& value : values) value *= 0.02;
  }
  std::vector<std::pair<std::string_view, std::string_view>> config_keys() const override {
    return {{"num_buckets", "relative_attention_num_buckets"}, {"max_distance", "relative_attention_max_distance"}};
  }
  std::shared_ptr<const PositionBias> bias(const MethodModel& model, std::span<const double> learned) const override {
    return std::make_shared<Buckets>(model.params, both_ways(model), model.n_heads, learned);
  }
  MethodTable table(const TableRequest& request) const override {
    const T5Params p = request.model.params;
    BucketTable table;
    table.formula = fmt::format(
        "of the n = {} buckets of a direction, distances below n/2 have one each; from there to max_distance they "
        "widen "
        "logarithmically; each head adds the bucket's learned number to the score",
        p.bidirectional ? p.num_buckets / 2 : p.num_buckets);
    table.source = "Raffel et al. 2019 (T5), its code";
    table.bucket = [p](std::int64_t relative) {
      return t5_bucket(relative, p.bidirectional, p.num_buckets, p.max_distance);
    };
    table.conclusion = fmt::format(
        "Near distances have a bucket each, far ones share; from max_distance = {} on all fall into the last. {}\n",
        p.max_distance,
        p.bidirectional ? "Keys after the query have the upper half of the buckets."
                        : "Keys after the query, which a causal model masks, share bucket 0.");
    MethodTable out;
    out.buckets = std::move(table);
    return out;
  }

 private:
  // A decoder counts distances backwards only.
  static bool both_ways(const MethodModel& model) { return !model.causal && model.params.bidirectional; }
};

}  // namespace

const Method& t5_method() {
  static const T5 method;
  return method;
}

}  // namespace poslab
