// Points as sweeps write them: `a,b,c`, `first:last:+step` or `first:last:*factor`.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace poslab {

// The i-th point of a range is first + i * step or first * factor^i, never accumulated; last is included where a point
// meets it; `+-1` steps down. T is std::int64_t or double.
template <class T>
class Range {
 public:
  static constexpr std::int64_t max_points = 1'000'000;

  // `what` begins every error: a number that is not one, a step or factor that does not lead from first to last, an
  // integer range that meets a fraction, a repeated point, more than max_points. Throws std::invalid_argument.
  static Range parse(std::string_view text, std::string_view what);

  std::int64_t size() const { return size_; }
  T at(std::int64_t i) const;  // 0 <= i < size()

 private:
  enum class Kind { list, steps, powers };

  void read_list(std::string_view text, std::string_view what);
  // Set size_ from first_, last and step_ or factor_.
  void count_steps(T last, std::string_view text, std::string_view what);
  void count_powers(T last, std::string_view text, std::string_view what);

  Kind kind_ = Kind::list;
  std::int64_t size_ = 0;
  std::vector<T> points_;  // of a list
  T first_{}, step_{};
  double factor_ = 1;
};

}  // namespace poslab
