#include "poslab/models/score_bias.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "poslab/methods/alibi.h"
#include "poslab/methods/relative_bias.h"

namespace poslab {
namespace {

constexpr std::int64_t t5_buckets = 32;
constexpr std::int64_t fire_width = 32;

std::int64_t t5_bucket_of(std::int64_t distance) { return t5_bucket(-distance, false, t5_buckets); }

// Encodings whose number depends on head and distance alone: a table serves all queries.
template <class T>
class DistanceBias : public LearnedScoreBias<T> {
 public:
  DistanceBias(std::int64_t n_heads, std::int64_t seq_len)
      : n_heads_(n_heads), seq_len_(seq_len), table_(static_cast<std::size_t>(n_heads * seq_len)) {}

  void add(std::int64_t head, std::int64_t query, std::int64_t first_key, std::int64_t n, T* scores) const override {
    const T* from = table_.data() + head * seq_len_ + seq_len_ - 1 - query + first_key;
    for (std::int64_t j = 0; j < n; ++j) scores[j] += from[j];
  }

  // One sum per distance, in the table's order.
  void add_gradient(std::int64_t, std::int64_t query, std::int64_t first_key, std::int64_t n, const T* d_scores,
                    double* sums) const override {
    double* to = sums + seq_len_ - 1 - query + first_key;
    for (std::int64_t j = 0; j < n; ++j) to[j] += static_cast<double>(d_scores[j]);
  }

 protected:
  // Falling distances, so that keys run upwards.
  void set(std::int64_t head, std::int64_t distance, double value) {
    table_[static_cast<std::size_t>((head + 1) * seq_len_ - 1 - distance)] = static_cast<T>(value);
  }

  template <class Visit>
  void for_each_sum(std::span<const double> sums, const Visit& visit) const {
    const auto entries = static_cast<std::int64_t>(sums.size()) / (n_heads_ * seq_len_);
    for (std::int64_t head = 0; head < n_heads_; ++head) {
      for (std::int64_t distance = 0; distance < seq_len_; ++distance) {
        double sum = 0;
        for (std::int64_t entry = 0; entry < entries; ++entry) {
          sum += sums[static_cast<std::size_t>((entry * n_heads_ + head + 1) * seq_len_ - 1 - distance)];
        }
        visit(head, distance, sum);
      }
    }
  }

  const std::int64_t n_heads_, seq_len_;

 private:
  std::vector<T> table_;  // [n_heads, seq_len]
};

template <class T>
class Alibi final : public DistanceBias<T> {
 public:
  Alibi(std::int64_t n_heads, std::int64_t seq_len) : DistanceBias<T>(n_heads, seq_len) {
    const std::vector<double> slopes = alibi_slopes(n_heads);
    for (std::int64_t head = 0; head < n_heads; ++head) {
      for (std::int64_t distance = 0; distance < seq_len; ++distance) {
        this->set(head, distance, alibi_bias(slopes[static_cast<std::size_t>(head)], distance, 0));
      }
    }
  }
  std::int64_t sums_size() const override { return 0; }
  void add_to_gradient(std::span<const double>, std::span<T>) const override {}
};

template <class T>
class T5 final : public DistanceBias<T> {
 public:
  T5(std::int64_t n_heads, std::span<const T> parameters, std::int64_t seq_len) : DistanceBias<T>(n_heads, seq_len) {
    for (std::int64_t distance = 0; distance < seq_len; ++distance) {
      const std::int64_t bucket = t5_bucket_of(distance);
      for (std::int64_t head = 0; head < n_heads; ++head) {
        this->set(head, distance, static_cast<double>(parameters[static_cast<std::size_t>(bucket * n_heads + head)]));
      }
    }
  }
  std::int64_t sums_size() const override { return this->seq_len_; }
  void add_to_gradient(std::span<const double> sums, std::span<T> gradient) const override {
    std::vector<double> total(gradient.size());
    this->for_each_sum(sums, [&](std::int64_t head, std::int64_t distance, double sum) {
      total[static_cast<std::size_t>(t5_bucket_of(distance) * this->n_heads_ + head)] += sum;
    });
    for (std::size_t i = 0; i < total.size(); ++i) gradient[i] += static_cast<T>(total[i]);
  }
};

template <class T>
class Kerple final : public DistanceBias<T> {
 public:
  Kerple(std::int64_t n_heads, std::span<const T> parameters, std::int64_t seq_len)
      : DistanceBias<T>(n_heads, seq_len) {
    for (std::int64_t head = 0; head < n_heads; ++head) {
      r1_.push_back(std::exp(static_cast<double>(parameters[static_cast<std::size_t>(head)])));
      r2_.push_back(std::exp(static_cast<double>(parameters[static_cast<std::size_t>(n_heads + head)])));
      for (std::int64_t distance = 0; distance < seq_len; ++distance) {
        this->set(head, distance, -r1_.back() * std::log1p(r2_.back() * static_cast<double>(distance)));
      }
    }
  }
  std::int64_t sums_size() const override { return this->seq_len_; }
  void add_to_gradient(std::span<const double> sums, std::span<T> gradient) const override {
    std::vector<double> total(gradient.size());
    this->for_each_sum(sums, [&](std::int64_t head, std::int64_t distance, double sum) {
      const auto h = static_cast<std::size_t>(head);
      const double reach = r2_[h] * static_cast<double>(distance);
      total[h] -= sum * r1_[h] * std::log1p(reach);
      total[h + r1_.size()] -= sum * r1_[h] * reach / (1 + reach);
    });
    for (std::size_t i = 0; i < total.size(); ++i) gradient[i] += static_cast<T>(total[i]);
  }

 private:
  std::vector<double> r1_, r2_;  // [n_heads]
};

template <class T>
class Fire final : public LearnedScoreBias<T> {
 public:
  Fire(std::int64_t n_heads, double fire_length, std::span<const T> parameters, std::int64_t seq_len)
      : n_heads_(n_heads) {
    auto next = parameters.begin();
    const auto take = [&](std::int64_t n) {
      const auto first = next;
      next += n;
      return std::vector<T>(first, next);
    };
    hidden_weight_ = take(fire_width);
    hidden_bias_ = take(fire_width);
    out_weight_ = take(n_heads * fire_width);
    out_bias_ = take(n_heads);
    const double c = std::exp(static_cast<double>(*next++));
    const double length = fire_length * std::exp(static_cast<double>(*next));
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

}  // namespace

std::vector<ScoreBiasTensor> score_bias_tensors(PositionEncoding encoding, std::int64_t n_heads) {
  switch (encoding) {
    case PositionEncoding::t5:
      return {{"relative_attention_bias.weight", {t5_buckets, n_heads}}};
    case PositionEncoding::kerple:
      return {{"kerple.log_r1", {n_heads}}, {"kerple.log_r2", {n_heads}}};
    case PositionEncoding::fire:
      return {{"fire.hidden.weight", {fire_width, 1}},
              {"fire.hidden.bias", {fire_width}},
              {"fire.out.weight", {n_heads, fire_width}},
              {"fire.out.bias", {n_heads}},
              {"fire.log_c", {1}},
              {"fire.log_length", {1}}};
    default:
      return {};
  }
}

void initialise_score_bias(PositionEncoding encoding, std::int64_t n_heads, Generator& generator,
                           std::span<double> values) {
  const auto n = static_cast<std::size_t>(n_heads);
  if (encoding == PositionEncoding::t5) {
    generator.standard_normal(values);
    for (double& value : values) value *= 0.02;
  } else if (encoding == PositionEncoding::kerple) {
    constexpr double least = 0.01;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double most = i < n ? 2 : 1;
      values[i] = std::log(least + (most - least) * generator.uniform());
    }
  } else if (encoding == PositionEncoding::fire) {
    const double out_limit = 1 / std::sqrt(static_cast<double>(fire_width));
    for (std::size_t i = 0; i + 2 < values.size(); ++i) {
      values[i] = (i < 2 * fire_width ? 1 : out_limit) * (2 * generator.uniform() - 1);
    }
    values[values.size() - 2] = std::log(0.1);
    values[values.size() - 1] = 0;
  }
}

template <class T>
std::unique_ptr<LearnedScoreBias<T>> make_score_bias(const TransformerConfig& config, std::span<const T> parameters,
                                                     std::int64_t seq_len) {
  switch (config.encoding) {
    case PositionEncoding::alibi:
      return std::make_unique<Alibi<T>>(config.n_heads, seq_len);
    case PositionEncoding::t5:
      return std::make_unique<T5<T>>(config.n_heads, parameters, seq_len);
    case PositionEncoding::kerple:
      return std::make_unique<Kerple<T>>(config.n_heads, parameters, seq_len);
    case PositionEncoding::fire:
      return std::make_unique<Fire<T>>(config.n_heads, config.fire_length, parameters, seq_len);
    default:
      return nullptr;
  }
}

template std::unique_ptr<LearnedScoreBias<float>> make_score_bias(const TransformerConfig&, std::span<const float>,
                                                                  std::int64_t);
template std::unique_ptr<LearnedScoreBias<double>> make_score_bias(const TransformerConfig&, std::span<const double>,
                                                                   std::int64_t);

}  // namespace poslab
