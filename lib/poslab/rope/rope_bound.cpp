#include "poslab/rope/rope_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <numbers>
#include <stdexcept>
#include <utility>

#include "poslab/core/threads.h"
#include "poslab/kernels/cosine_sum.h"
#include "poslab/rope/rope.h"

namespace poslab {
namespace {

using Interval = std::pair<double, double>;  // of ln(base)

// No base beyond exp(700) is looked at: a double could not hold it.
constexpr double max_log_base = 700;

// Steps upwards through t along one distance, never past a change of sign of B(m) unless |B(m)| is within its rounding
// error.
class Walk {
 public:
  Walk(const CosineSumInBase& sum, std::int64_t m, double t)
      : sum_(sum), m_(static_cast<double>(m)), t_(t), point_(sum.at(t_, m_)) {}

  double t() const { return t_; }
  bool negative() const { return point_.value < 0; }
  bool known() const { return std::abs(point_.value) > point_.rounding; }
  double unproved() const { return unproved_; }

  void advance() {
    double step = blind_step_;
    if (known()) {
      blind_step_ = first_blind_step;
      // Taylor: |B| falls by at most towards * s + curvature * s^2 / 2 within s.
      const double towards = negative() ? -point_.slope : point_.slope;
      const double root = std::sqrt(towards * towards + 2 * point_.curvature * std::abs(point_.value));
      step = point_.curvature > 0 ? (towards + root) / point_.curvature : max_log_base;
    } else {
      unproved_ += step;
      blind_step_ = std::min(2 * blind_step_, last_blind_step);
    }
    t_ = std::min(std::max(t_ + step, std::nextafter(t_, max_log_base)), max_log_base);
    point_ = sum_.at(t_, m_);
  }

  static constexpr double first_blind_step = 1e-13, last_blind_step = 1e-9;

 private:
  const CosineSumInBase& sum_;
  double m_, t_;
  CosineSumPoint point_;
  double blind_step_ = first_blind_step, unproved_ = 0;
};

std::vector<double> frequencies(std::int64_t n_pairs, double t) {
  std::vector<double> inv_freq(static_cast<std::size_t>(n_pairs));
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    inv_freq[i] = std::exp(-t * (static_cast<double>(i) / static_cast<double>(n_pairs)));
  }
  return inv_freq;
}

// The m in [begin, end) with B(m) < 0, ascending, those near 0 judged by a direct sum.
std::vector<std::int64_t> negative_distances(std::span<const double> inv_freq, std::int64_t begin, std::int64_t end,
                                             int threads) {
  constexpr std::int64_t block = CosineSums::block, blocks_per_task = 64;
  // At whole distances a turn more or less changes nothing.
  std::vector<double> within_a_turn(inv_freq.begin(), inv_freq.end());
  for (double& w : within_a_turn) {
    if (std::abs(w) > CosineSums::max_inv_freq) w = std::remainder(w, 2 * std::numbers::pi);
  }
  const CosineSums sums(within_a_turn);
  const double doubtful = 1e-9 * static_cast<double>(inv_freq.size());
  const std::int64_t first_block = begin / block;
  const std::int64_t n_blocks = (end + block - 1) / block - first_block;
  const std::int64_t n_tasks = (n_blocks + blocks_per_task - 1) / blocks_per_task;
  std::vector<std::vector<std::int64_t>> found(static_cast<std::size_t>(n_tasks));
  parallel_for(n_tasks, threads, [&](std::int64_t task) {
    std::array<double, block> values;
    const std::int64_t last = std::min((task + 1) * blocks_per_task, n_blocks);
    for (std::int64_t b = first_block + task * blocks_per_task; b < first_block + last; ++b) {
      sums.fill_block(b, values);
      for (std::int64_t j = 0; j < block; ++j) {
        const std::int64_t m = b * block + j;
        double value = values[static_cast<std::size_t>(j)];
        if (value >= doubtful || m < begin || m >= end) continue;
        if (value > -doubtful) value = cosine_sum(inv_freq, static_cast<double>(m));
        if (value < 0) found[static_cast<std::size_t>(task)].push_back(m);
      }
    }
  });
  std::vector<std::int64_t> all;
  for (const auto& part : found) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// ln(base) from which B(m) >= 0 by |angle| alone: each pair that has not yet turned half way counts its cosine, every
// other -1. The sum grows with t, so here bisection is right.
double always_positive_from(std::int64_t n_pairs, double m, double low) {
  const auto floor_of_sum = [&](double t) {
    double sum = std::cos(m);
    for (std::int64_t i = 1; i < n_pairs; ++i) {
      const double x = static_cast<double>(i) / static_cast<double>(n_pairs);
      sum += std::cos(std::min(m * std::exp(-t * x), std::numbers::pi));
    }
    return sum;
  };
  if (floor_of_sum(low) >= 0) return low;
  double high = max_log_base;
  while (high - low > 1e-3) {
    const double middle = 0.5 * (low + high);
    (floor_of_sum(middle) >= 0 ? high : low) = middle;
  }
  return high;
}

// Sorts and joins intervals that touch.
void unite(std::vector<Interval>& intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::size_t kept = 0;
  for (const Interval& next : intervals) {
    if (kept > 0 && next.first <= intervals[kept - 1].second) {
      intervals[kept - 1].second = std::max(intervals[kept - 1].second, next.second);
    } else {
      intervals[kept++] = next;
    }
  }
  intervals.resize(kept);
}

void check(const char* who, std::int64_t rotary_dim, std::int64_t seq_len) {
  if (rotary_dim <= 0 || rotary_dim % 2 != 0) {
    throw std::invalid_argument(
        fmt::format("[{}] rotary_dim must be even and at least 2 but got {}.", who, rotary_dim));
  }
  if (seq_len < 1 || seq_len > CosineSums::max_distance) {
    throw std::invalid_argument(
        fmt::format("[{}] seq_len must be 1 .. {} but got {}.", who, CosineSums::max_distance, seq_len));
  }
}

}  // namespace

std::optional<std::int64_t> first_negative(std::span<const double> inv_freq, std::int64_t end, int threads) {
  for (std::int64_t begin = 0, run = 1 << 16; begin < end; begin += run, run *= 2) {
    const auto found = negative_distances(inv_freq, begin, std::min(begin + run, end), threads);
    if (!found.empty()) return found.front();
  }
  return std::nullopt;
}

double decay_bound(std::span<const double> inv_freq, double distance) {
  double real = 0, imaginary = 0, total = 0;
  for (double w : inv_freq) {
    real += std::cos(distance * w);
    imaginary += std::sin(distance * w);
    total += std::hypot(real, imaginary);
  }
  return total / static_cast<double>(inv_freq.size());
}

std::int64_t critical_dim(std::int64_t rotary_dim, double base, double length) {
  const double pairs = static_cast<double>(rotary_dim) / 2 * std::log(length / (2 * std::numbers::pi)) / std::log(base);
  return 2 * static_cast<std::int64_t>(std::clamp(std::ceil(pairs), 0.0, static_cast<double>(rotary_dim / 2)));
}

double extrapolation_length(std::int64_t rotary_dim, double base, std::int64_t critical) {
  return 2 * std::numbers::pi * std::pow(base, static_cast<double>(critical) / static_cast<double>(rotary_dim));
}

BaseSearch smallest_base(std::int64_t rotary_dim, std::int64_t seq_len, int threads,
                         const std::function<void(double)>& progress) {
  check("smallest_base", rotary_dim, seq_len);
  constexpr std::size_t max_walks = 8;
  const std::int64_t n_pairs = rotary_dim / 2;
  const CosineSumInBase sum(n_pairs);
  BaseSearch search;
  double t = 0, blind_step = Walk::first_blind_step;
  // The first negative distance, which moves outwards as the base grows, though not steadily.
  std::int64_t reach = 1, furthest_reach = 1;
  while (t < max_log_base) {
    const std::vector<double> inv_freq = frequencies(n_pairs, t);
    std::vector<std::int64_t> distances;
    for (std::int64_t begin = 0, end = 2 * reach; distances.empty() && begin < seq_len; begin = end, end *= 2) {
      distances = negative_distances(inv_freq, begin, std::min(end, seq_len), threads);
    }
    if (distances.empty()) {
      search.smallest = std::exp(t);
      return search;
    }
    reach = distances.front();
    furthest_reach = std::max(furthest_reach, reach);
    progress(static_cast<double>(furthest_reach) / static_cast<double>(seq_len));

    // One negative distance suffices to refuse a base; those deep for their length stay negative longest.
    std::vector<std::pair<double, std::int64_t>> deepest;
    for (std::int64_t m : distances) {
      deepest.emplace_back(cosine_sum(inv_freq, static_cast<double>(m)) / static_cast<double>(m), m);
    }
    std::sort(deepest.begin(), deepest.end());
    double furthest = t;
    for (std::size_t k = 0; k < std::min(deepest.size(), max_walks); ++k) {
      Walk walk(sum, deepest[k].second, t);
      while (walk.negative() && walk.known() && walk.t() < max_log_base) walk.advance();
      // The last step ended on a point that is negative or within rounding of 0, so all before it is negative.
      furthest = std::max(furthest, walk.t());
    }
    if (furthest > t) {
      t = furthest;
      blind_step = Walk::first_blind_step;
    } else {
      t += blind_step;
      search.unproved += blind_step;
      blind_step = std::min(2 * blind_step, Walk::last_blind_step);
    }
  }
  return search;
}

BaseSearch feasible_bases(std::int64_t rotary_dim, std::int64_t seq_len, int threads,
                          const std::function<void(double)>& progress) {
  // Walking every distance costs far more than finding the first island.
  constexpr double first_part = 0.1;
  BaseSearch search = smallest_base(rotary_dim, seq_len, threads, [&](double share) { progress(first_part * share); });
  if (!search.smallest) return search;

  constexpr std::int64_t per_task = 64;
  const std::int64_t n_pairs = rotary_dim / 2;
  const CosineSumInBase sum(n_pairs);
  const double from = std::log(*search.smallest);
  std::vector<Interval> negative;
  std::mutex mutex;
  double done = 0;
  const std::int64_t n_tasks = (seq_len + per_task - 1) / per_task;
  std::vector<double> unproved(static_cast<std::size_t>(n_tasks));
  parallel_for(n_tasks, threads, [&](std::int64_t task) {
    std::vector<Interval> found;
    const std::int64_t end = std::min((task + 1) * per_task, seq_len);
    for (std::int64_t m = task * per_task; m < end; ++m) {
      const double to = always_positive_from(n_pairs, static_cast<double>(m), from);
      Walk walk(sum, m, from);
      bool inside = false;
      for (; walk.t() < to; walk.advance()) {
        if (walk.negative() && !inside) {
          found.emplace_back(walk.t(), to);
        } else if (!walk.negative() && inside) {
          found.back().second = walk.t();
        }
        inside = walk.negative();
      }
      unproved[static_cast<std::size_t>(task)] += walk.unproved();
    }
    unite(found);
    const std::lock_guard lock(mutex);
    negative.insert(negative.end(), found.begin(), found.end());
    unite(negative);
    done += static_cast<double>(end * end - task * per_task * task * per_task);  // a walk's length grows with m
    progress(first_part + (1 - first_part) * done / (static_cast<double>(seq_len) * static_cast<double>(seq_len)));
  });
  for (double width : unproved) search.unproved += width;

  double begin = *search.smallest;
  for (const Interval& gap : negative) {
    // At `from` some B(m) is 0 but for rounding, which may make it negative here though it was not above.
    if (gap.second <= from + Walk::last_blind_step) continue;
    if (gap.first > from) search.islands.push_back({begin, std::exp(gap.first)});
    begin = std::exp(gap.second);
  }
  search.islands.push_back({begin, std::nullopt});
  return search;
}

}  // namespace poslab
