#include "poslab/methods/fire.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <vector>

#include "poslab/methods/list.h"

namespace poslab {
namespace {

template <class T>
class FireRows final : public ScoreBias<T> {
 public:
  FireRows(std::int64_t n_heads, double fire_length, std::span<const double> parameters, std::int64_t seq_len)
      : n_heads_(n_heads) {
    auto next = parameters.begin();
    const auto take = [&](std::int64_t n) {
      std::vector<T> part(static_cast<std::size_t>(n));
      for (T& value : part) value = static_cast<T>(*next++);
      return part;
    };
    hidden_weight_ = take(fire_width);
    hidden_bias_ = take(fire_width);
    out_weight_ = take(n_heads * fire_width);
    out_bias_ = take(n_heads);
    const double c = std::exp(*next++);
    const double length = fire_length * std::exp(*next);
    for (std::int64_t m = 0; m < seq_len; ++m) {
      const double distance = static_cast<double>(m);
      const double reach = std::max(length, distance);
      const double norm = std::log1p(c * reach);
      log_distance_.push_back(static_cast<T>(std::log1p(c * distance)));
      log_distance_slope_.push_back(static_cast<T>(c * distance / (1 + c * distance)));
      inverse_norm_.push_back(static_cast<T>(1 / norm));
      const double slope = c * reach / (1 + c * reach) / norm;
      norm_slope_.push_back(static_cast<T>(slope));
      length_slope_.push_back(static_cast<T>(length > distance ? slope : 0));
    }
  }

  void add(std::int64_t head, std::int64_t query, std::int64_t first_key, std::int64_t n, T* scores) const override {
    const T* weight = out_weight_.data() + head * fire_width;
    const T bias = out_bias_[static_cast<std::size_t>(head)];
    for_each_block(query, first_key, n, [&](std::int64_t done, std::int64_t count, const T* x) {
      T out[block];
      std::fill_n(out, block, bias);
      for (std::size_t k = 0; k < fire_width; ++k) {
        for (std::int64_t j = 0; j < block; ++j) out[j] += weight[k] * relu(hidden_weight_[k] * x[j] + hidden_bias_[k]);
      }
      for (std::int64_t j = 0; j < count; ++j) scores[done + j] += out[j];
    });
  }

  // Of the keys that pass each ReLU: the sums of g, g x, g dx/dlog_c and g dx/dlog_length; last the sum of g.
  void add_gradient(std::int64_t, std::int64_t query, std::int64_t first_key, std::int64_t n, const T* d_scores,
                    double* sums) const override {
    std::array<T, 3 * fire_width> row{};
    T all = 0;
    const auto q = static_cast<std::size_t>(query);
    for (std::int64_t j = 0; j < n; ++j) {
      const auto distance = static_cast<std::size_t>(query - first_key - j);
      const T g = d_scores[j], x = log_distance_[distance] * inverse_norm_[q];
      const T gx = g * x, gc = g * (log_distance_slope_[distance] * inverse_norm_[q] - x * norm_slope_[q]);
      for (std::size_t k = 0; k < fire_width; ++k) {
        const bool passes = hidden_weight_[k] * x + hidden_bias_[k] > 0;
        row[k] += passes ? g : T{0};
        row[fire_width + k] += passes ? gx : T{0};
        row[2 * fire_width + k] += passes ? gc : T{0};
      }
      all += g;
    }
    for (std::size_t i = 0; i < row.size(); ++i) sums[i] += static_cast<double>(row[i]);
    for (std::size_t k = 0; k < fire_width; ++k) {
      sums[3 * fire_width + k] -= static_cast<double>(row[fire_width + k] * length_slope_[q]);
    }
    sums[4 * fire_width] += static_cast<double>(all);
  }

  std::int64_t sums_size() const override { return 4 * fire_width + 1; }

  void add_to_gradient(std::span<const double> sums, std::span<T> gradient) const override {
    std::vector<double> total(gradient.size());
    const auto entries = static_cast<std::int64_t>(sums.size()) / (n_heads_ * sums_size());
    double* hidden_weight = total.data();
    double* hidden_bias = hidden_weight + fire_width;
    double* out_weight = hidden_bias + fire_width;
    double* out_bias = out_weight + n_heads_ * fire_width;
    double* log_c = out_bias + n_heads_;
    double* log_length = log_c + 1;
    for (std::int64_t entry = 0; entry < entries; ++entry) {
      for (std::int64_t head = 0; head < n_heads_; ++head) {
        const double* s = sums.data() + (entry * n_heads_ + head) * sums_size();
        for (std::int64_t k = 0; k < fire_width; ++k) {
          const auto weight = static_cast<double>(out_weight_[static_cast<std::size_t>(head * fire_width + k)]);
          const auto v = static_cast<double>(hidden_weight_[static_cast<std::size_t>(k)]);
          const auto b = static_cast<double>(hidden_bias_[static_cast<std::size_t>(k)]);
          const double g = s[k], gx = s[fire_width + k];
          out_weight[head * fire_width + k] += v * gx + b * g;
          hidden_weight[k] += weight * gx;
          hidden_bias[k] += weight * g;
          *log_c += weight * v * s[2 * fire_width + k];
          *log_length += weight * v * s[3 * fire_width + k];
        }
        out_bias[head] += s[4 * fire_width];
      }
    }
    for (std::size_t i = 0; i < total.size(); ++i) gradient[i] += static_cast<T>(total[i]);
  }

 private:
  static constexpr std::int64_t block = 64;
  static T relu(T x) { return x > 0 ? x : T{0}; }

  // The network's input for `block` keys at a time, 0 beyond the last.
  template <class Visit>
  void for_each_block(std::int64_t query, std::int64_t first_key, std::int64_t n, const Visit& visit) const {
    for (std::int64_t done = 0; done < n; done += block) {
      const std::int64_t count = std::min(block, n - done);
      T x[block] = {};
      for (std::int64_t j = 0; j < count; ++j) {
        x[j] = log_distance_[static_cast<std::size_t>(query - first_key - done - j)] *
               inverse_norm_[static_cast<std::size_t>(query)];
      }
      visit(done, count, x);
    }
  }

  std::int64_t n_heads_;
  std::vector<T> hidden_weight_, hidden_bias_, out_weight_, out_bias_;
  // By distance; by query: 1 / norm, and d ln(norm) / dlog_c and / dlog_length.
  std::vector<T> log_distance_, log_distance_slope_, inverse_norm_, norm_slope_, length_slope_;
};

// The formula, one number after another.
class Network final : public PositionBias {
 public:
  Network(std::int64_t n_heads, double fire_length, std::span<const double> learned)
      : n_heads_(n_heads), fire_length_(fire_length), learned_(learned.begin(), learned.end()) {}
  std::int64_t n_heads() const override { return n_heads_; }
  bool by_distance() const override { return false; }
  double at(std::int64_t head, double query, double key) const override {
    const double* hidden_weight = learned_.data();
    const double* hidden_bias = hidden_weight + fire_width;
    const double* out_weight = hidden_bias + fire_width;
    const double* out_bias = out_weight + n_heads_ * fire_width;
    const double c = std::exp(out_bias[n_heads_]);
    const double length = fire_length_ * std::exp(out_bias[n_heads_ + 1]);
    const double x = std::log1p(c * std::abs(query - key)) / std::log1p(c * std::max(length, query));
    double sum = out_bias[head];
    for (std::int64_t k = 0; k < fire_width; ++k) {
      sum += out_weight[head * fire_width + k] * std::max(0.0, hidden_weight[k] * x + hidden_bias[k]);
    }
    return sum;
  }
  std::int64_t n_learned() const override { return std::ssize(learned_); }
  std::unique_ptr<ScoreBias<float>> rows_f32(std::int64_t seq_len) const override {
    return std::make_unique<FireRows<float>>(n_heads_, fire_length_, learned_, seq_len);
  }
  std::unique_ptr<ScoreBias<double>> rows_f64(std::int64_t seq_len) const override {
    return std::make_unique<FireRows<double>>(n_heads_, fire_length_, learned_, seq_len);
  }

 private:
  const std::int64_t n_heads_;
  const double fire_length_;
  const std::vector<double> learned_;
};

class Fire final : public Method {
 public:
  std::string_view word() const override { return "fire"; }
  std::string_view sentence() const override {
    return "adds to each score what a small network makes of ln(1 + c distance) / ln(1 + c max(L, query position))";
  }
  std::string_view source() const override { return "Li et al. 2023, arXiv:2310.04418, equation 7"; }
  std::string_view used_by() const override { return "research models"; }
  std::vector<Place> places() const override { return {Place::score_bias}; }
  std::vector<FieldSpec> parameters() const override { return field_specs<FireParams>(); }
  void set_defaults(MethodParams& params, std::int64_t trained_length) const override {
    // The paper's share of the training length: 512 of 2048 tokens.
    if (!params.fire_length) params.fire_length = std::max(1.0, static_cast<double>(trained_length) / 4);
  }
  void check(const MethodModel& model) const override {
    if (std::isfinite(length(model)) && length(model) > 0) return;
    throw std::invalid_argument(fmt::format("[method] fire_length must be above 0 but got {}.", length(model)));
  }
  std::vector<MethodTensor> tensors(const MethodModel& model) const override {
    return {{"fire.hidden.weight", {fire_width, 1}},
            {"fire.hidden.bias", {fire_width}},
            {"fire.out.weight", {model.n_heads, fire_width}},
            {"fire.out.bias", {model.n_heads}},
            {"fire.log_c", {1}},
            {"fire.log_length", {1}}};
  }
  void initialise(const MethodModel&, Generator& generator, std::span<double> values) const override {
    const double out_limit = 1 / std::sqrt(static_cast<double>(fire_width));
    for (std::size_t i = 0; i + 2 < values.size(); ++i) {
      values[i] = (i < 2 * fire_width ? 1 : out_limit) * (2 * generator.uniform() - 1);
    }
    values[values.size() - 2] = std::log(0.1);
    values[values.size() - 1] = 0;
  }
  std::shared_ptr<const PositionBias> bias(const MethodModel& model, std::span<const double> learned) const override {
    return std::make_shared<Network>(model.n_heads, length(model), learned);
  }

 private:
  static double length(const MethodModel& model) {
    return model.params.fire_length.value_or(std::max(1.0, static_cast<double>(model.max_position_embeddings) / 4));
  }
};

}  // namespace

const Method& fire_method() {
  static const Fire method;
  return method;
}

}  // namespace poslab
