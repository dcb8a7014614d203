// poslab's own threads: work is cut into numbered tasks whose size never depends on the thread count.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace poslab {

// The cores this process may use (its affinity mask and cgroup quota), at least 1.
int available_cores();

// The cpus that the tightest quota of the process's cgroups grants, infinity where there is none. `membership` is the
// text of /proc/self/cgroup, `root` where the hierarchies are mounted (/sys/fs/cgroup).
double cgroup_cpus(const std::string& membership, const std::string& root);

// Runs task(0) .. task(n_tasks - 1), each exactly once, on up to `threads` threads including the caller's; tasks start
// in ascending order. After an exception no further task starts; of several, the one of the lowest task is rethrown
// here once all threads have stopped.
void parallel_for(std::int64_t n_tasks, int threads, const std::function<void(std::int64_t)>& task);

}  // namespace poslab
