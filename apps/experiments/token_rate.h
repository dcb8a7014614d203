// How fast a model reads, as words beside a progress bar.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <string>

namespace poslab {

class TokenRate {
 public:
  void add(double tokens) { tokens_ += tokens; }
  // Since this object was made.
  double per_second() const {
    return tokens_ / std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  }
  std::string words() const { return fmt::format("{:.0f} tokens/s", per_second()); }

 private:
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  double tokens_ = 0;
};

}  // namespace poslab
