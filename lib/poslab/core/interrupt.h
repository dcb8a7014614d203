// Ctrl-C for work that can stop in good order: while an InterruptScope lives, the first SIGINT only sets a flag, and
// the second ends the process as usual.
#pragma once

#include <atomic>

namespace poslab {

// Set by these while a scope lives, or by whoever wants long work to stop; long work polls it.
std::atomic<bool>& interrupt_requested();

class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};

}  // namespace poslab
