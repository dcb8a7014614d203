#include "poslab/report/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace poslab {
namespace {

constexpr std::array<char, 200> two_digits = [] {
  std::array<char, 200> text{};
  for (int i = 0; i < 100; ++i) {
    text[static_cast<std::size_t>(2 * i)] = static_cast<char>('0' + i / 10);
    text[static_cast<std::size_t>(2 * i + 1)] = static_cast<char>('0' + i % 10);
  }
  return text;
}();

constexpr int most_digits = 20;  // of 64 bits

// Ends at `end`; returns the first digit.
char* write_digits_before(char* end, std::uint64_t value) {
  for (; value >= 100; value /= 100) {
    end -= 2;
    std::memcpy(end, two_digits.data() + 2 * (value % 100), 2);
  }
  if (value >= 10) {
    end -= 2;
    std::memcpy(end, two_digits.data() + 2 * value, 2);
  } else {
    *--end = static_cast<char>('0' + value);
  }
  return end;
}

}  // namespace

char* write_number(char* to, double value) {
  if (std::signbit(value)) *to++ = '-';
  if (value == 0) return std::copy_n("0.0", std::signbit(value) ? 3 : 1, to);
  // fmt's own conversion to decimal, without the layers of its general formatting, which cost twice as much.
  const auto decimal = fmt::detail::dragonbox::to_decimal(std::abs(value));
  char buffer[most_digits];
  const char* digits = write_digits_before(buffer + most_digits, decimal.significand);
  const auto n = static_cast<int>(buffer + most_digits - digits);
  const int point = n + decimal.exponent;  // digits before the decimal point
  if (point > 16 || point < -3) {
    *to++ = digits[0];
    if (n > 1) {
      *to++ = '.';
      to = std::copy(digits + 1, digits + n, to);
    }
    return fmt::format_to(to, "e{:+03d}", point - 1);
  }
  if (point <= 0) {
    to = std::copy_n("0.000", 2 - point, to);
    return std::copy(digits, digits + n, to);
  }
  if (point >= n) return std::fill_n(std::copy(digits, digits + n, to), point - n, '0');
  to = std::copy(digits, digits + point, to);
  *to++ = '.';
  return std::copy(digits + point, digits + n, to);
}

}  // namespace poslab
