#include "poslab/core/threads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <exception>
#include <fstream>
#include <limits>
#include <mutex>
#include <sstream>
#include <system_error>
#include <thread>
#include <vector>

namespace poslab {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

int affinity_cores() {
  // The kernel refuses a mask smaller than its own; machines beyond 1024 cpus need the longer ones.
  for (std::size_t masks = 1; masks <= 64; masks *= 2) {
    std::vector<cpu_set_t> set(masks);
    const std::size_t bytes = masks * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, set.data()) == 0) return CPU_COUNT_S(bytes, set.data());
    if (errno != EINVAL) break;
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

// The quota of one cgroup directory: v2's cpu.max ("200000 100000" or "max 100000"), else v1's cpu.cfs_*.
double quota_in(const std::string& directory) {
  double quota = 0;
  double period = 0;
  if (std::ifstream file(directory + "/cpu.max"); file >> quota >> period && quota > 0 && period > 0) {
    return quota / period;
  }
  std::ifstream quota_file(directory + "/cpu.cfs_quota_us");
  std::ifstream period_file(directory + "/cpu.cfs_period_us");
  if (quota_file >> quota && period_file >> period && quota > 0 && period > 0) return quota / period;
  return unlimited;
}

}  // namespace

double cgroup_cpus(const std::string& membership, const std::string& root) {
  double cpus = unlimited;
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    // id:controllers:path, where v2 leaves the controllers empty.
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    const std::string mount = controllers.empty() ? root : root + "/cpu";
    std::string path = line.substr(second + 1);
    while (true) {
      while (!path.empty() && path.back() == '/') path.pop_back();
      cpus = std::min(cpus, quota_in(mount + path));
      if (path.empty()) break;
      path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return cpus;
}

int available_cores() {
  std::ifstream file("/proc/self/cgroup");
  std::ostringstream membership;
  membership << file.rdbuf();
  const double quota = std::ceil(cgroup_cpus(membership.str(), "/sys/fs/cgroup"));
  const int cores = std::max(1, affinity_cores());
  return quota < cores ? std::max(1, static_cast<int>(quota)) : cores;
}

void parallel_for(std::int64_t n_tasks, int threads, const std::function<void(std::int64_t)>& task) {
  if (threads <= 1 || n_tasks <= 1) {
    for (std::int64_t i = 0; i < n_tasks; ++i) task(i);
    return;
  }
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::int64_t failed_task = n_tasks;
  std::exception_ptr failure;
  const auto work = [&] {
    while (!failed) {
      const std::int64_t i = next.fetch_add(1);
      if (i >= n_tasks) return;
      try {
        task(i);
      } catch (...) {
        failed = true;
        const std::lock_guard lock(mutex);
        if (i < failed_task) {
          failed_task = i;
          failure = std::current_exception();
        }
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    const std::int64_t wanted = std::min<std::int64_t>(threads, n_tasks) - 1;
    try {
      for (std::int64_t i = 0; i < wanted; ++i) helpers.emplace_back(work);
    } catch (const std::system_error&) {
      // The system has no more threads to give: those that started share the work.
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace poslab
