#include "poslab/probe/judge.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "poslab/core/threads.h"
#include "poslab/probe/prediction.h"

namespace poslab {
namespace {

// The power of two at or below |value|.
double exponent_part(double value) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) & 0x7ff0000000000000U);
}

struct Rounding {
  double relative, least;
  double operator()(double value) const { return std::max(exponent_part(value) * relative, least); }
};

Rounding rounding_of(DType type) {
  switch (type) {
    case DType::bf16:
      return {0x1p-8, 0};
    case DType::f16:
      return {0x1p-11, 0x1p-25};
    case DType::f32:
    case DType::f64:  // a finer storage does not make an f32 engine wrong
      break;
  }
  return {0x1p-24, 0x1p-150};
}

// What one chunk of places found.
struct Part {
  std::vector<float> pair_ratio, pair_error;
  std::vector<double> pair_size;
  double copied = 0, left = 0, size = 0;
};

void merge(Judgement& j, double& left, double& size, const Part& part) {
  for (std::size_t i = 0; i < j.pair_ratio.size(); ++i) {
    j.pair_ratio[i] = std::max(j.pair_ratio[i], part.pair_ratio[i]);
    j.pair_error[i] = std::max(j.pair_error[i], part.pair_error[i]);
    j.pair_size[i] = std::max(j.pair_size[i], part.pair_size[i]);
  }
  j.copied_ratio = std::max(j.copied_ratio, part.copied);
  left += part.left;
  size += part.size;
}

class Judge {
 public:
  Judge(const VectorDump& dump, const EngineModel& model, Tolerance tolerance, Judgement& out)
      : dump_(dump),
        model_(model),
        prediction_(model, tolerance, judged_type(dump)),
        out_(out),
        rounding_(rounding_of(judged_type(dump))) {
    const Pairing& p = model.pairing;
    std::vector<char> rotates(static_cast<std::size_t>(dump.head_dim));
    for (std::int64_t i = 0; i < p.n_pairs(); ++i) {
      in_.push_back(p.in(i));
      to_.push_back(p.out(i));
      rotates[static_cast<std::size_t>(to_.back().first)] = rotates[static_cast<std::size_t>(to_.back().second)] = 1;
    }
    for (std::size_t c = 0; c < rotates.size(); ++c) {
      if (!rotates[c]) copied_.push_back(c);
    }
  }

  Part run(std::size_t begin, std::size_t end) {
    const std::size_t n = in_.size();
    Part part{std::vector<float>(n), std::vector<float>(n), std::vector<double>(n)};
    std::vector<PairMap> maps(n);
    std::vector<double> slack(n);
    for (std::size_t at = begin; at < end; ++at) {
      const std::size_t place = out_.rows.places[at];
      double shown = std::numeric_limits<double>::quiet_NaN();
      for (std::size_t k = 0; k < out_.rows.vectors.size(); ++k) {
        const std::size_t row = place * static_cast<std::size_t>(dump_.n_vectors) + out_.rows.vectors[k];
        const double position = model_.used ? (*model_.used)[row] : dump_.positions[place];
        if (position != shown) prediction_.at(position, maps, slack);
        shown = position;
        const double* x = dump_.input.data() + dump_.input_rows[row];
        const double* y = dump_.output.data() + dump_.output_rows[row];
        const auto [ratio, error] = one_row(at, x, y, maps, slack, position != 0, part);
        out_.row_ratio[at * out_.rows.vectors.size() + k] = ratio;
        out_.row_error[at * out_.rows.vectors.size() + k] = error;
      }
    }
    return part;
  }

 private:
  std::pair<float, float> one_row(std::size_t at, const double* x, const double* y, const std::vector<PairMap>& maps,
                                  const std::vector<double>& slack, bool moves, Part& part) {
    const std::size_t n = in_.size();
    double worst = 0, worst_error = 0;
    float* place_ratio = out_.place_ratio.data() + at * n;
    float* place_error = out_.place_error.data() + at * n;
    for (std::size_t i = 0; i < n; ++i) {
      const double xa = x[in_[i].first], xb = x[in_[i].second], ya = y[to_[i].first], yb = y[to_[i].second];
      const PairMap& m = maps[i];
      const double off_a = std::abs(ya - (m.aa * xa + m.ab * xb)), off_b = std::abs(yb - (m.ba * xa + m.bb * xb));
      const double size = std::abs(xa) + std::abs(xb), allowed = slack[i] * size;
      const double ratio = std::max(off_a / (allowed + rounding_(ya)), off_b / (allowed + rounding_(yb)));
      const double off = off_a + off_b;
      part.left += off_a * off_a + off_b * off_b;
      part.size += ya * ya + yb * yb;
      worst = std::max(worst, ratio);
      place_ratio[i] = std::max(place_ratio[i], static_cast<float>(ratio));
      if (size == 0) continue;
      worst_error = std::max(worst_error, off / size);
      place_error[i] = std::max(place_error[i], static_cast<float>(off / size));
      if (moves) part.pair_size[i] = std::max(part.pair_size[i], size);
    }
    for (std::size_t i = 0; i < n; ++i) {
      part.pair_ratio[i] = std::max(part.pair_ratio[i], place_ratio[i]);
      part.pair_error[i] = std::max(part.pair_error[i], place_error[i]);
    }
    for (std::size_t c : copied_) {
      const double off = std::abs(y[c] - x[c]);
      const double ratio = off / (rounding_(y[c]) * 1.01);
      part.left += off * off;
      part.size += y[c] * y[c];
      part.copied = std::max(part.copied, ratio);
      worst = std::max(worst, ratio);
    }
    return {static_cast<float>(worst), static_cast<float>(worst_error)};
  }

  const VectorDump& dump_;
  const EngineModel& model_;
  const Prediction prediction_;
  Judgement& out_;
  Rounding rounding_;
  std::vector<PairChannels> in_, to_;
  std::vector<std::size_t> copied_;
};

}  // namespace

DType judged_type(const VectorDump& dump) { return dump.has_pairing ? dump.stored_as : DType::f32; }

double half_ulp(DType type, double value) { return rounding_of(type)(value); }

EngineModel make_model(const RopeHypothesis& rope) {
  EngineModel model;
  model.rope = rope;
  model.pairing = plain_pairing(rope.layout, rope.rotary_dim());
  model.pairing.first_channel = rope.first_channel;
  model.cos_gain = model.sin_gain = rope.frequencies.attention_factor;
  return model;
}

Selection all_rows(const VectorDump& dump) {
  Selection all;
  all.places.resize(dump.positions.size());
  all.vectors.resize(static_cast<std::size_t>(dump.n_vectors));
  std::iota(all.places.begin(), all.places.end(), std::size_t{0});
  std::iota(all.vectors.begin(), all.vectors.end(), std::size_t{0});
  return all;
}

Selection sample_rows(const VectorDump& dump, std::size_t max_places, std::size_t max_vectors) {
  Selection chosen = all_rows(dump);
  std::vector<std::size_t>& order = chosen.places;
  if (order.size() > max_places) {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return dump.positions[a] < dump.positions[b]; });
    const std::size_t lowest = max_places / 3, highest = max_places / 6, between = max_places - lowest - highest;
    std::vector<std::size_t> places(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(lowest));
    const double first = static_cast<double>(lowest), last = static_cast<double>(order.size() - highest);
    for (std::size_t i = 0; i < between; ++i) {
      const double at = first * std::pow(last / first, static_cast<double>(i) / static_cast<double>(between));
      places.push_back(order[std::min(static_cast<std::size_t>(at) + i, order.size() - highest - between + i)]);
    }
    places.insert(places.end(), order.end() - static_cast<std::ptrdiff_t>(highest), order.end());
    order = std::move(places);
  }
  if (chosen.vectors.size() > max_vectors) {
    for (std::size_t k = 0; k < max_vectors; ++k) {
      chosen.vectors[k] = k * (static_cast<std::size_t>(dump.n_vectors) - 1) / (max_vectors - 1);
    }
    chosen.vectors.resize(max_vectors);
  }
  return chosen;
}

double Judgement::share_wrong() const {
  const auto wrong = std::count_if(row_ratio.begin(), row_ratio.end(), [](float r) { return !(r <= 1); });
  return row_ratio.empty() ? 0 : static_cast<double>(wrong) / static_cast<double>(row_ratio.size());
}

Judgement judge(const VectorDump& dump, const EngineModel& model, Tolerance tolerance, Selection rows, int threads) {
  Judgement j;
  j.rows = std::move(rows);
  j.n_pairs = model.pairing.n_pairs();
  const auto n = static_cast<std::size_t>(j.n_pairs), places = j.rows.places.size();
  j.pair_ratio.resize(n);
  j.pair_error.resize(n);
  j.pair_size.resize(n);
  j.row_ratio.resize(places * j.rows.vectors.size());
  j.row_error.resize(j.row_ratio.size());
  j.place_ratio.resize(places * n);
  j.place_error.resize(places * n);
  if (model.pairing.first_channel + model.pairing.rotary_dim > dump.head_dim) {
    j.worst = std::numeric_limits<double>::infinity();  // more channels than there are
    std::fill(j.row_ratio.begin(), j.row_ratio.end(), std::numeric_limits<float>::infinity());
    j.residual = 1;
    return j;
  }
  Judge work(dump, model, tolerance, j);
  constexpr std::size_t chunk = 32;
  std::vector<Part> parts((places + chunk - 1) / chunk);
  parallel_for(static_cast<std::int64_t>(parts.size()), threads, [&](std::int64_t task) {
    const std::size_t begin = static_cast<std::size_t>(task) * chunk;
    parts[static_cast<std::size_t>(task)] = work.run(begin, std::min(places, begin + chunk));
  });
  double left = 0, size = 0;
  for (const Part& part : parts) merge(j, left, size, part);
  j.residual = size > 0 ? std::sqrt(left / size) : std::sqrt(left);
  j.worst = j.copied_ratio;
  for (float r : j.row_ratio)
    j.worst = std::isnan(r) ? std::numeric_limits<double>::infinity() : std::max<double>(j.worst, r);
  return j;
}

}  // namespace poslab
