// The points of a sweep: the product of its axes, decoded one at a time; the first axis varies slowest.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "experiments/experiment.h"

namespace poslab::cli {

class Sweep {
 public:
  static constexpr std::int64_t max_points = 1'000'000;

  // axes: "name=points". `base` holds the other parameters, which decide what `all` leaves out; each word left out
  // is told to `note`.
  Sweep(const Experiment& experiment, const std::vector<std::string>& axes, const Record& base,
        const std::function<void(std::string)>& note);

  std::int64_t size() const { return size_; }
  const std::vector<std::size_t>& swept_params() const { return params_; }
  Record point(const Record& base, std::int64_t index) const;
  // "seq_len=4096, factor=2" for errors.
  std::string describe(const Record& record) const;

 private:
  struct Axis {
    std::size_t param;
    std::int64_t size;
    std::function<Value(std::int64_t)> at;
  };

  const Experiment& experiment_;
  std::vector<Axis> axes_;
  std::vector<std::size_t> params_;
  std::int64_t size_ = 1;
};

}  // namespace poslab::cli
