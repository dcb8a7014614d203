// Computes numbered points side by side and hands them over in order.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace poslab::cli {

// compute(i) -> Result on up to `jobs` threads; emit(i, result) once per point, in order, from one thread at a time.
// The first failing point in order stops the rest; the points before it are emitted first, then it is rethrown.
template <class Result, class Compute, class Emit>
void ordered_points(std::int64_t count, std::int64_t jobs, const Compute& compute, const Emit& emit) {
  jobs = std::min(jobs, count);
  if (jobs <= 1) {
    for (std::int64_t i = 0; i < count; ++i) emit(i, compute(i));
    return;
  }
  struct Outcome {
    std::optional<Result> result;
    std::exception_ptr error;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::int64_t, Outcome> waiting;
  std::int64_t next = 0, emitted = 0;
  bool emitting = false;
  std::exception_ptr failure;
  const std::int64_t window = 4 * jobs;  // finished points held back for a slow one

  const auto work = [&] {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return failure || next >= count || next < emitted + window; });
      if (failure || next >= count) return;
      const std::int64_t mine = next++;
      lock.unlock();
      Outcome outcome;
      try {
        outcome.result.emplace(compute(mine));
      } catch (...) {
        outcome.error = std::current_exception();
      }
      lock.lock();
      waiting.emplace(mine, std::move(outcome));
      if (emitting) continue;
      emitting = true;
      for (auto ready = waiting.find(emitted); ready != waiting.end() && !failure; ready = waiting.find(emitted)) {
        Outcome now = std::move(ready->second);
        waiting.erase(ready);
        const std::int64_t index = emitted;
        lock.unlock();
        std::exception_ptr error = now.error;
        if (!error) {
          try {
            emit(index, std::as_const(*now.result));
          } catch (...) {
            error = std::current_exception();
          }
        }
        lock.lock();
        ++emitted;
        if (error) failure = error;
        changed.notify_all();
      }
      emitting = false;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::int64_t j = 0; j < jobs; ++j) threads.emplace_back(work);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace poslab::cli
