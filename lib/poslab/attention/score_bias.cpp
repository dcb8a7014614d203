#include "poslab/attention/score_bias.h"

#include <type_traits>
#include <utility>
#include <vector>

namespace poslab {
namespace {

// A bias that depends on head and distance alone: one table serves all queries.
template <class T>
class DistanceBias final : public ScoreBias<T> {
 public:
  DistanceBias(std::shared_ptr<const PositionBias> bias, std::int64_t seq_len)
      : bias_(std::move(bias)),
        n_heads_(bias_->n_heads()),
        seq_len_(seq_len),
        table_(static_cast<std::size_t>(n_heads_ * seq_len)) {
    for (std::int64_t head = 0; head < n_heads_; ++head) {
      for (std::int64_t distance = 0; distance < seq_len; ++distance) {
        table_[place(head, distance)] = static_cast<T>(bias_->at(head, static_cast<double>(distance), 0));
      }
    }
  }

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

  std::int64_t sums_size() const override { return bias_->n_learned() > 0 ? seq_len_ : 0; }

  void add_to_gradient(std::span<const double> sums, std::span<T> gradient) const override {
    std::vector<double> total(gradient.size());
    const auto entries = static_cast<std::int64_t>(sums.size()) / (n_heads_ * seq_len_);
    for (std::int64_t head = 0; head < n_heads_; ++head) {
      for (std::int64_t distance = 0; distance < seq_len_; ++distance) {
        double sum = 0;
        for (std::int64_t entry = 0; entry < entries; ++entry) sum += sums[place(entry * n_heads_ + head, distance)];
        bias_->add_gradient(head, distance, sum, total);
      }
    }
    for (std::size_t i = 0; i < total.size(); ++i) gradient[i] += static_cast<T>(total[i]);
  }

 private:
  // Distances fall, so that keys run upwards.
  std::size_t place(std::int64_t head, std::int64_t distance) const {
    return static_cast<std::size_t>((head + 1) * seq_len_ - 1 - distance);
  }

  const std::shared_ptr<const PositionBias> bias_;
  const std::int64_t n_heads_, seq_len_;
  std::vector<T> table_;  // [n_heads, seq_len]
};

}  // namespace

template <class T>
std::unique_ptr<ScoreBias<T>> score_bias_rows(std::shared_ptr<const PositionBias> bias, std::int64_t seq_len) {
  if (!bias) return nullptr;
  std::unique_ptr<ScoreBias<T>> own;
  if constexpr (std::is_same_v<T, float>) {
    own = bias->rows_f32(seq_len);
  } else {
    own = bias->rows_f64(seq_len);
  }
  return own ? std::move(own) : std::make_unique<DistanceBias<T>>(std::move(bias), seq_len);
}

template std::unique_ptr<ScoreBias<float>> score_bias_rows(std::shared_ptr<const PositionBias>, std::int64_t);
template std::unique_ptr<ScoreBias<double>> score_bias_rows(std::shared_ptr<const PositionBias>, std::int64_t);

}  // namespace poslab
