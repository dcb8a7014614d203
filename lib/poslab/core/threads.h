// poslab's own threads: work is cut into numbered tasks whose size never depends on the thread count.
#pragma once

#include <cstdint>
#include <functional>

namespace poslab {

// The cores this process may use (its affinity mask and cgroup quota), at least 1.
int available_cores();

// Runs task(0) .. task(n_tasks - 1), each exactly once, on up to `threads` threads including the caller's.
// The first exception is rethrown here once all threads have stopped.
void parallel_for(std::int64_t n_tasks, int threads, const std::function<void(std::int64_t)>& task);

}  // namespace poslab
