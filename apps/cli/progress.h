// A bar with rate and time left on stderr, for runs that take longer than a moment.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

namespace poslab::cli {

class Progress {
 public:
  Progress(bool on, int fd, std::string label);
  ~Progress();  // wipes the bar
  // fraction 0 .. 1; from any thread; draws at most ten times a second, and nothing in the first half second.
  void update(double fraction);
  // A few words of the run's own, such as its loss, that stand in the place of the rate from the next update on.
  void status(const std::string& words);

 private:
  bool on_;
  int fd_;
  std::string label_, status_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point started_, drawn_;
  bool visible_ = false;
};

}  // namespace poslab::cli
