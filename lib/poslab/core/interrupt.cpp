#include "poslab/core/interrupt.h"

#include <csignal>
#include <mutex>

namespace poslab {
namespace {

std::atomic<bool> requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set it");

std::mutex mutex;
int scopes = 0;
struct sigaction before {};

void on_interrupt(int) { requested = true; }

}  // namespace

std::atomic<bool>& interrupt_requested() { return requested; }

InterruptScope::InterruptScope() {
  const std::lock_guard lock(mutex);
  if (scopes++ > 0) return;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, &before);
  // Started in the background of a script, the process was told to ignore Ctrl-C.
  if (before.sa_handler == SIG_IGN) sigaction(SIGINT, &before, nullptr);
}

InterruptScope::~InterruptScope() {
  const std::lock_guard lock(mutex);
  if (--scopes == 0) sigaction(SIGINT, &before, nullptr);
}

}  // namespace poslab
