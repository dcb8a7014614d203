#include "poslab/core/student.h"

#include <cmath>
#include <numbers>
#include <stdexcept>

namespace poslab {
namespace {

// The probability of |T| <= t.
double within(double t, std::int64_t degrees) {
  const double theta = std::atan(t / std::sqrt(static_cast<double>(degrees)));
  const double c = std::cos(theta), s = std::sin(theta);
  double term = degrees % 2 == 0 ? 1 : c, sum = degrees == 1 ? 0 : term;
  for (std::int64_t k = degrees % 2 == 0 ? 2 : 3; k < degrees; k += 2) {
    term *= c * c * static_cast<double>(k - 1) / static_cast<double>(k);
    sum += term;
  }
  return degrees % 2 == 0 ? s * sum : 2 / std::numbers::pi * (theta + s * sum);
}

}  // namespace

double student_t(double p, std::int64_t degrees) {
  if (!(p >= 0.5 && p < 1) || degrees < 1) {
    throw std::invalid_argument("[student_t] needs 0.5 <= p < 1 and at least 1 degree of freedom.");
  }
  const double inside = 2 * p - 1;
  double low = 0, high = 1;
  while (within(high, degrees) < inside) high *= 2;
  while (true) {
    const double middle = 0.5 * (low + high);
    if (middle <= low || middle >= high) return middle;
    (within(middle, degrees) < inside ? low : high) = middle;
  }
}

ConfidenceInterval confidence_interval(std::span<const double> values, double confidence) {
  ConfidenceInterval out;
  if (values.empty()) return out;
  const auto n = static_cast<double>(values.size());
  for (double value : values) out.mean += value / n;
  if (values.size() < 2) return out;
  double squares = 0;
  for (double value : values) squares += (value - out.mean) * (value - out.mean);
  const double reach = student_t((1 + confidence) / 2, std::ssize(values) - 1) * std::sqrt(squares / (n - 1) / n);
  out.low = out.mean - reach;
  out.high = out.mean + reach;
  return out;
}

}  // namespace poslab
