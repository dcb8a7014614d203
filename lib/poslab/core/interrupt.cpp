#include "poslab/core/interrupt.h"

#include <csignal>
#include <mutex>

namespace poslab {
namespace {

std::atomic<bool> requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set it");

std::mutex mutex;
int scopes = 0;
constexpr int signals[] = {SIGINT, SIGTERM};
struct sigaction before[2];

void on_interrupt(int) { requested = true; }

}  // namespace

std::atomic<bool>& interrupt_requested() { return requested; }

InterruptScope::InterruptScope() {
  const std::lock_guard lock(mutex);
  if (scopes++ > 0) return;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  // Also where a script's shell had its background job ignore SIGINT: whoever sends it means this process.
  for (int i = 0; i < 2; ++i) sigaction(signals[i], &action, &before[i]);
}

InterruptScope::~InterruptScope() {
  const std::lock_guard lock(mutex);
  if (--scopes > 0) return;
  for (int i = 0; i < 2; ++i) sigaction(signals[i], &before[i], nullptr);
}

}  // namespace poslab
