// Numbers added to attention scores: what a method says of two positions, and the rows that attention adds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace poslab {

// What the scores of a text receive, row by row; positions are 0 .. seq_len - 1.
template <class T>
class ScoreBias {
 public:
  virtual ~ScoreBias() = default;
  // scores[j] += bias(head, query, first_key + j), j = 0 .. n - 1; first_key + n - 1 <= query.
  virtual void add(std::int64_t head, std::int64_t query, std::int64_t first_key, std::int64_t n, T* scores) const = 0;
  // Adds what the gradient of the bias's own parameters needs to a head's sums, which start as zeros.
  virtual void add_gradient(std::int64_t head, std::int64_t query, std::int64_t first_key, std::int64_t n,
                            const T* d_scores, double* sums) const = 0;
  virtual std::int64_t sums_size() const = 0;  // per head; 0: nothing is learned
  // gradient (in the learned values' order) += from the sums over all layers, [batch, n_heads, sums_size()].
  virtual void add_to_gradient(std::span<const double> sums, std::span<T> gradient) const = 0;
};

// A bias as a formula, in double.
class PositionBias {
 public:
  virtual ~PositionBias() = default;
  virtual std::int64_t n_heads() const = 0;
  // What the score of a query and a key at these positions (tokens) receives.
  virtual double at(std::int64_t head, double query, double key) const = 0;
  // It depends on key - query alone; else also on the query's position.
  virtual bool by_distance() const { return true; }
  // It never rises with |query - key|: keys too far away for any weight can be told beforehand.
  virtual bool falls() const { return false; }
  // Score per token of distance, where the bias is a straight line.
  virtual std::optional<double> slope(std::int64_t /*head*/) const { return std::nullopt; }

  // By distance: how many values are learned, and total (in their order) += sum * d at(head, distance, 0) / d value.
  virtual std::int64_t n_learned() const { return 0; }
  virtual void add_gradient(std::int64_t /*head*/, std::int64_t /*distance*/, double /*sum*/,
                            std::span<double> /*total*/) const {}
  // Rows of its own, for a bias not by distance or with a faster form; null: a table by distance serves.
  virtual std::unique_ptr<ScoreBias<float>> rows_f32(std::int64_t /*seq_len*/) const { return nullptr; }
  virtual std::unique_ptr<ScoreBias<double>> rows_f64(std::int64_t /*seq_len*/) const { return nullptr; }
};

// The bias of a text of seq_len tokens, narrowed once; null for no bias.
template <class T>
std::unique_ptr<ScoreBias<T>> score_bias_rows(std::shared_ptr<const PositionBias> bias, std::int64_t seq_len);

}  // namespace poslab
