#include "poslab/core/numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <stdexcept>
#include <system_error>

namespace poslab {

std::int64_t parse_integer(std::string_view text, std::string_view what) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop == end && error == std::errc::result_out_of_range) {
    throw std::invalid_argument(fmt::format("{}: {} is beyond the 64-bit integers.", what, text));
  }
  if (stop != end || error != std::errc{}) {
    throw std::invalid_argument(fmt::format("{}: '{}' is not an integer.", what, text));
  }
  return value;
}

double parse_real(std::string_view text, std::string_view what) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop == end && error == std::errc::result_out_of_range) {
    throw std::invalid_argument(fmt::format("{}: {} is beyond the range of doubles.", what, text));
  }
  if (stop != end || error != std::errc{}) {
    throw std::invalid_argument(fmt::format("{}: '{}' is not a number.", what, text));
  }
  if (!std::isfinite(value)) {
    throw std::invalid_argument(fmt::format("{}: '{}' is not a finite number.", what, text));
  }
  return value;
}

}  // namespace poslab
