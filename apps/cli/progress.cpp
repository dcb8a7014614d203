#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace poslab::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::string duration(double seconds) {
  const auto s = static_cast<long long>(seconds + 0.5);
  return s < 60     ? fmt::format("{} s", s)
         : s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                    : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

void put(int fd, std::string_view text) {
  // A bar that cannot be drawn is no error.
  if (write(fd, text.data(), text.size()) < 0) return;
}

}  // namespace

Progress::Progress(bool on, int fd, std::string label)
    : on_(on), fd_(fd), label_(std::move(label)), started_(Clock::now()), drawn_(started_) {}

Progress::~Progress() {
  if (visible_) put(fd_, "\r\x1b[K");
}

void Progress::status(const std::string& words) {
  if (!on_) return;
  const std::lock_guard lock(mutex_);
  status_ = words;
}

void Progress::update(double fraction) {
  if (!on_) return;
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  const double elapsed = std::chrono::duration<double>(now - started_).count();
  if (elapsed < 0.5 || now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  visible_ = true;
  fraction = std::clamp(fraction, 0.0, 1.0);
  constexpr int width = 24;
  std::string bar;
  for (int i = 0; i < width; ++i) bar += i < fraction * width ? "█" : "░";
  std::string text = fmt::format("\r\x1b[K{} {} {:3.0f}%", label_, bar, 100 * fraction);
  if (fraction > 0) {
    text += fmt::format("  {}  {} left", status_.empty() ? fmt::format("{:.3g}%/s", 100 * fraction / elapsed) : status_,
                        duration(elapsed * (1 - fraction) / fraction));
  }
  put(fd_, text);
}

}  // namespace poslab::cli
