#include "poslab/probe/evidence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace poslab {
namespace {

using Complex = std::complex<double>;

// Half an ulp, the largest rounding error relative to a value of the type; what f64 data could add is lost in the
// rounding of an f32 angle anyway.
double rounding_of(DType type) {
  switch (type) {
    case DType::bf16:
      return 0x1p-9;
    case DType::f16:
      return 0x1p-12;
    case DType::f32:
    case DType::f64:
      break;
  }
  return 0x1p-24;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Up to max_places indices: the lowest positions (neighbours tell the frequencies), the highest, and steps between.
std::vector<std::size_t> sample_places(const std::vector<double>& positions) {
  std::vector<std::size_t> order(positions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return positions[a] < positions[b]; });
  if (order.size() <= TurnEvidence::max_places) return order;
  constexpr std::size_t lowest = 32, highest = 8;
  std::vector<std::size_t> chosen(order.begin(), order.begin() + lowest);
  const std::size_t between = TurnEvidence::max_places - lowest - highest;
  const double first = lowest, last = static_cast<double>(order.size() - highest);
  for (std::size_t i = 0; i < between; ++i) {
    const double at = first * std::pow(last / first, static_cast<double>(i) / static_cast<double>(between));
    chosen.push_back(order[std::min(static_cast<std::size_t>(at) + i, order.size() - highest - between + i)]);
  }
  chosen.insert(chosen.end(), order.end() - highest, order.end());
  return chosen;
}

// A pair that is nearly 0 turns noise into any angle: it fades out below a tenth of the pairs' mean square.
double fade(double square, double mean_square) { return square > 0 ? square / (square + 0.1 * mean_square) : 0; }

}  // namespace

DType storage_type(std::span<const double> values) {
  for (DType type : {DType::bf16, DType::f16, DType::f32}) {
    if (std::all_of(values.begin(), values.end(), [type](double v) { return round_to(type, v) == v; })) return type;
  }
  return DType::f64;
}

TurnEvidence TurnEvidence::from_vectors(const VectorDump& dump) {
  TurnEvidence e;
  e.head_dim_ = dump.head_dim;
  constexpr std::int64_t max_vectors = 128;
  e.n_vectors_ = std::min(dump.n_vectors, std::max(max_vectors, dump.head_dim));
  const auto width = static_cast<std::size_t>(dump.head_dim);
  for (std::size_t place : sample_places(dump.positions)) {
    e.positions_.push_back(dump.positions[place]);
    for (std::int64_t h = 0; h < e.n_vectors_; ++h) {
      const std::size_t row = place * static_cast<std::size_t>(dump.n_vectors) + static_cast<std::size_t>(h);
      const auto from = dump.input.subspan(static_cast<std::size_t>(dump.input_rows[row]), width);
      const auto to = dump.output.subspan(static_cast<std::size_t>(dump.output_rows[row]), width);
      e.input_.insert(e.input_.end(), from.begin(), from.end());
      e.output_.insert(e.output_.end(), to.begin(), to.end());
    }
  }
  e.stored_as_ = storage_type(e.output_);
  e.find_pairings();
  return e;
}

double TurnEvidence::noise_at(double position) const { return noise_ + 0x1p-24 * std::abs(position); }

MeasuredTurns TurnEvidence::measure(RopeLayout layout, std::int64_t rotary_dim, std::size_t place_step) const {
  MeasuredTurns m;
  m.n_pairs = rotary_dim / 2;
  const auto n_pairs = static_cast<std::size_t>(m.n_pairs);
  const auto width = static_cast<std::size_t>(head_dim_);
  const auto vectors = static_cast<std::size_t>(n_vectors_);
  std::vector<double> lengths, place_noise;
  std::vector<Complex> product(n_pairs);
  std::vector<double> square(n_pairs), fourth(n_pairs);
  const auto channels = [&](std::size_t i) {
    return rope_pair_channels(layout, rotary_dim, static_cast<std::int64_t>(i));
  };
  std::vector<double> place_spare(positions_.size());
  // Places in between stay 0 and unweighted.
  m.turn.resize(positions_.size() * n_pairs);
  m.weight.resize(m.turn.size());
  m.unexplained.resize(positions_.size());
  m.uncopied.resize(positions_.size());
  for (std::size_t s = place_step - 1; s < positions_.size(); s += place_step) {
    std::fill(product.begin(), product.end(), Complex{});
    std::fill(square.begin(), square.end(), 0.0);
    std::fill(fourth.begin(), fourth.end(), 0.0);
    for (std::size_t h = 0; h < vectors; ++h) {
      const std::size_t row = (s * vectors + h) * width;
      for (std::size_t i = 0; i < n_pairs; ++i) {
        const auto [a, b] = channels(i);
        const Complex z(input_[row + a], input_[row + b]), w(output_[row + a], output_[row + b]);
        product[i] += std::conj(z) * w;
        square[i] += std::norm(z);
        fourth[i] += std::norm(z) * std::norm(z);
      }
    }
    const double mean = std::accumulate(square.begin(), square.end(), 0.0) / static_cast<double>(n_pairs);
    std::vector<double> scale(n_pairs);  // of a pair's squared residual, to units of its own squared size
    for (std::size_t i = 0; i < n_pairs; ++i) {
      if (square[i] == 0) continue;
      const double speaking = square[i] * square[i] / fourth[i];
      const double weight = fade(square[i], mean) * speaking;
      m.turn[s * n_pairs + i] = product[i] / square[i];
      m.weight[s * n_pairs + i] = weight;
      scale[i] = weight / square[i];
      place_spare[s] += fade(square[i], mean) * std::max(0.0, 2 * speaking - 2);
      lengths.push_back(std::abs(m.turn[s * n_pairs + i]));
    }
    double left = 0, uncopied = 0, copied_square = 0;
    for (std::size_t h = 0; h < vectors; ++h) {
      const std::size_t row = (s * vectors + h) * width;
      for (std::size_t i = 0; i < n_pairs; ++i) {
        const auto [a, b] = channels(i);
        const Complex z(input_[row + a], input_[row + b]), w(output_[row + a], output_[row + b]);
        left += std::norm(w - m.turn[s * n_pairs + i] * z) * scale[i];
      }
      for (std::size_t c = 2 * n_pairs; c < width; ++c) {
        uncopied += (output_[row + c] - input_[row + c]) * (output_[row + c] - input_[row + c]);
        copied_square += input_[row + c] * input_[row + c];
      }
    }
    m.unexplained[s] = left;
    m.spare_dof += place_spare[s];
    const auto copied = static_cast<double>((width - 2 * n_pairs) * vectors);
    m.uncopied[s] = copied_square > 0 ? uncopied / copied_square * copied : 0;
  }
  m.attention_factor = median(lengths);
  // The noise of each place that turned anything; their median, since an f32 angle's error is allowed for elsewhere.
  for (std::size_t s = place_step - 1; s < positions_.size(); s += place_step) {
    if (positions_[s] == 0) continue;
    double left = m.unexplained[s], dof = place_spare[s];
    for (std::size_t i = 0; i < n_pairs; ++i) {
      const double off = std::abs(m.turn[s * n_pairs + i]) - m.attention_factor;
      left += m.weight[s * n_pairs + i] * off * off;
      dof += m.weight[s * n_pairs + i] > 0 ? 1 : 0;
    }
    if (dof <= 0) continue;
    // Channels that were copied exactly say nothing about the noise of those that turned.
    const auto copied_dof = static_cast<double>((width - 2 * n_pairs) * vectors);
    place_noise.push_back(std::sqrt(std::max(left / dof, (left + m.uncopied[s]) / (dof + copied_dof))));
  }
  m.noise = median(place_noise);
  return m;
}

void TurnEvidence::find_pairings() {
  noise_ = rounding_of(stored_as_);
  // A few places tell which widths can be; those are measured at all.
  const std::size_t step = std::max<std::size_t>(1, positions_.size() / 8);
  std::map<std::pair<RopeLayout, std::int64_t>, double> rough;
  double least = std::numeric_limits<double>::infinity();
  for (RopeLayout layout : {RopeLayout::half, RopeLayout::interleaved}) {
    for (std::int64_t dim = 2; dim <= head_dim_; dim += 2) {
      const double noise = measure(layout, dim, step).noise;
      rough[{layout, dim}] = noise;
      least = std::min(least, noise);
    }
  }
  double least_measured = std::numeric_limits<double>::infinity();
  for (const auto& [pairing, noise] : rough) {
    if (noise > 10 * std::max(noise_, least)) continue;
    plausible_.push_back(pairing);
    least_measured = std::min(least_measured, measured(pairing.first, pairing.second)->noise);
  }
  noise_ = std::max(noise_, least_measured);
  const auto noise_of = [&](const auto& pairing) { return measured_.at(pairing).noise; };
  std::erase_if(plausible_, [&](const auto& pairing) { return noise_of(pairing) > 3 * noise_; });
  std::stable_sort(plausible_.begin(), plausible_.end(),
                   [&](const auto& a, const auto& b) { return noise_of(a) < noise_of(b); });
}

const MeasuredTurns* TurnEvidence::measured(RopeLayout layout, std::int64_t rotary_dim) const {
  const auto found = measured_.find({layout, rotary_dim});
  if (found != measured_.end()) return &found->second;
  if (head_dim_ == 0 || rotary_dim < 2 || rotary_dim > head_dim_) return nullptr;
  return &measured_.emplace(std::pair{layout, rotary_dim}, measure(layout, rotary_dim, 1)).first->second;
}

FrequencyEvidence::FrequencyEvidence(std::vector<double> inv_freq) : stored_as_(storage_type(inv_freq)) {
  for (double w : inv_freq)
    measured_.error.push_back(std::max(rounding_of(stored_as_), 0x1p-22) * std::abs(w) + 1e-300);
  measured_.value = std::move(inv_freq);
}

}  // namespace poslab
