#include "poslab/core/ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <stdexcept>
#include <string>

#include "poslab/core/numbers.h"

namespace poslab {
namespace {

[[noreturn]] void fail(std::string_view what, const std::string& why) {
  throw std::invalid_argument(fmt::format("{}: {}", what, why));
}

[[noreturn]] void too_many(std::string_view text, std::string_view what) {
  fail(what, fmt::format("'{}' has more than {} points.", text, Range<double>::max_points));
}

template <class T>
T parse_number(std::string_view text, std::string_view what) {
  if constexpr (std::integral<T>) {
    return parse_integer(text, what);
  } else {
    return parse_real(text, what);
  }
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

double power_point(double first, double factor, std::int64_t i) {
  return first * std::pow(factor, static_cast<double>(i));
}

// What rounding can do to first * factor^i.
double power_rounding(double point, std::int64_t i) {
  return std::abs(point) * static_cast<double>(i + 2) * std::numeric_limits<double>::epsilon();
}

// The number of points before `last` is passed, a point that passes it by rounding alone counted in. `estimate` is the
// index at which the points should meet it.
template <class Point, class Rounding>
std::int64_t count_points(double estimate, double last, bool up, Point point, Rounding rounding) {
  const auto passed = [&](std::int64_t i) {
    const double slack = rounding(i);
    return up ? point(i) > last + slack : point(i) < last - slack;
  };
  auto i = static_cast<std::int64_t>(estimate);
  while (!passed(i + 1)) ++i;
  while (i > 0 && passed(i)) --i;
  return i + 1;
}

}  // namespace

template <class T>
void Range<T>::read_list(std::string_view text, std::string_view what) {
  for (std::string_view part : split(text, ',')) {
    points_.push_back(parse_number<T>(part, what));
    if (points_.size() > static_cast<std::size_t>(max_points)) {
      fail(what, fmt::format("the list has more than {} points.", max_points));
    }
  }
  std::vector<T> sorted = points_;
  std::sort(sorted.begin(), sorted.end());
  const auto twin = std::adjacent_find(sorted.begin(), sorted.end());
  if (twin != sorted.end()) fail(what, fmt::format("the point {} stands twice in '{}'.", *twin, text));
  size_ = static_cast<std::int64_t>(points_.size());
}

template <class T>
void Range<T>::count_steps(T last, std::string_view text, std::string_view what) {
  if (step_ == 0) fail(what, fmt::format("the step in '{}' is 0.", text));
  if (first_ != last && (first_ < last) != (step_ > 0)) {
    fail(what, fmt::format("steps of {} do not lead from {} to {}.", step_, first_, last));
  }
  const bool up = step_ > 0;
  if constexpr (std::integral<T>) {
    // Without a sign, since the way from first to last may need all 64 bits.
    const auto low = static_cast<std::uint64_t>(up ? first_ : last);
    const auto high = static_cast<std::uint64_t>(up ? last : first_);
    const auto step = static_cast<std::uint64_t>(step_);
    const std::uint64_t steps = (high - low) / (up ? step : std::uint64_t{0} - step);
    if (steps >= static_cast<std::uint64_t>(max_points)) too_many(text, what);
    size_ = static_cast<std::int64_t>(steps) + 1;
  } else {
    const double estimate = (last - first_) / step_;
    if (!(estimate < static_cast<double>(max_points))) too_many(text, what);
    const double rounding = 4 * std::numeric_limits<double>::epsilon() * std::max(std::abs(first_), std::abs(last));
    size_ = count_points(
        estimate, last, up, [&](std::int64_t i) { return first_ + static_cast<double>(i) * step_; },
        [&](std::int64_t) { return rounding; });
  }
}

template <class T>
void Range<T>::count_powers(T last, std::string_view text, std::string_view what) {
  if (factor_ <= 0 || factor_ == 1) {
    fail(what, fmt::format("the factor in '{}' must be above 0 and not 1.", text));
  }
  const double first = static_cast<double>(first_);
  const double ratio = static_cast<double>(last) / first;
  if (first == 0 || !(ratio > 0) || (ratio != 1 && (ratio > 1) != (factor_ > 1))) {
    fail(what, fmt::format("factors of {} do not lead from {} to {}.", factor_, first_, last));
  }
  const double estimate = std::log(ratio) / std::log(factor_);
  if (!(estimate < static_cast<double>(max_points))) too_many(text, what);
  const auto point = [&](std::int64_t i) { return power_point(first, factor_, i); };
  size_ = count_points(estimate, static_cast<double>(last), (first < 0) != (factor_ > 1), point,
                       [&](std::int64_t i) { return power_rounding(point(i), i); });
  if constexpr (std::integral<T>) {
    for (std::int64_t i = 0; i < size_; ++i) {
      const double value = point(i);
      const double off = std::abs(value - std::nearbyint(value));
      if (std::abs(value) >= 0x1p53 || off > std::min(power_rounding(value, i), 0.25)) {
        fail(what, fmt::format("'{}' meets {}, which is not a whole number below 2^53.", text, value));
      }
    }
  }
}

template <class T>
Range<T> Range<T>::parse(std::string_view text, std::string_view what) {
  Range range;
  if (text.find(':') == std::string_view::npos) {
    range.read_list(text, what);
    return range;
  }
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() != 3 || parts[2].size() < 2 || (parts[2][0] != '+' && parts[2][0] != '*')) {
    fail(what, fmt::format("'{}' is not first:last:+step or first:last:*factor (`+-1` steps down).", text));
  }
  range.first_ = parse_number<T>(parts[0], what);
  const T last = parse_number<T>(parts[1], what);
  const std::string_view by = parts[2].substr(1);
  if (parts[2][0] == '+') {
    range.kind_ = Kind::steps;
    range.step_ = parse_number<T>(by, what);
    range.count_steps(last, text, what);
  } else {
    range.kind_ = Kind::powers;
    range.factor_ = parse_real(by, what);
    range.count_powers(last, text, what);
  }
  if (range.size_ > max_points) too_many(text, what);
  for (const std::int64_t i : {std::int64_t{1}, range.size_ - 1}) {
    if (i >= 1 && i < range.size_ && range.at(i) == range.at(i - 1)) {
      fail(what, fmt::format("'{}' steps too finely: two of its points are the same number.", text));
    }
  }
  return range;
}

template <class T>
T Range<T>::at(std::int64_t i) const {
  if (i < 0 || i >= size_) throw std::out_of_range("[Range] no such point");
  switch (kind_) {
    case Kind::list:
      return points_[static_cast<std::size_t>(i)];
    case Kind::steps:
      if constexpr (std::integral<T>) {
        // The product alone may need more than 63 bits.
        return static_cast<T>(static_cast<std::uint64_t>(first_) +
                              static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(step_));
      } else {
        return first_ + static_cast<T>(i) * step_;
      }
    case Kind::powers:
      break;
  }
  const double point = power_point(static_cast<double>(first_), factor_, i);
  if constexpr (std::integral<T>) {
    return static_cast<T>(std::nearbyint(point));
  } else {
    return point;
  }
}

template class Range<std::int64_t>;
template class Range<double>;

}  // namespace poslab
