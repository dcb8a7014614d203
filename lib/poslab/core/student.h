// Means over a few seeds, and how far they may be from the truth.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace poslab {

// The t that Student's distribution of `degrees` degrees of freedom stays below with probability p, 0.5 <= p < 1
// (Abramowitz and Stegun, 26.7.3 and 26.7.4). Throws std::invalid_argument "[student_t] ..." outside of that.
double student_t(double p, std::int64_t degrees);

// mean +- student_t((1 + confidence) / 2, n - 1) s / sqrt(n), s^2 the unbiased variance; the ends are absent below two
// values.
struct ConfidenceInterval {
  double mean = 0;
  std::optional<double> low, high;
};
ConfidenceInterval confidence_interval(std::span<const double> values, double confidence = 0.95);

}  // namespace poslab
