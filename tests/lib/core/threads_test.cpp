#include "poslab/core/threads.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "scratch.h"

namespace poslab {
namespace {

void write(const Scratch& folder, const std::string& file, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(folder.path(file)).parent_path());
  folder.file(text, file);
}

}  // namespace

TEST_CASE("every task runs exactly once, whatever the thread count") {
  for (int threads : {-1, 0, 1, 2, 7}) {
    for (std::int64_t n : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(n));
      parallel_for(n, threads, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
      for (const auto& count : runs) CHECK(count == 1);
    }
  }
}

TEST_CASE("one thread runs inline and in order") {
  const auto caller = std::this_thread::get_id();
  std::vector<std::int64_t> order;
  parallel_for(4, 1, [&](std::int64_t i) {
    CHECK(std::this_thread::get_id() == caller);
    order.push_back(i);
  });
  CHECK(order == std::vector<std::int64_t>{0, 1, 2, 3});
}

TEST_CASE("several threads take part") {
  std::atomic<int> arrived{0};
  parallel_for(2, 2, [&](std::int64_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();  // ends only when both tasks run at once
  });
  CHECK(arrived == 2);
}

TEST_CASE("after an exception no further task starts") {
  for (int threads : {1, 2, 4}) {
    std::atomic<int> runs{0};
    CHECK_THROWS_WITH_AS(parallel_for(1000000, threads,
                                      [&](std::int64_t i) {
                                        ++runs;
                                        if (i >= 10) throw std::runtime_error(std::to_string(i));
                                      }),
                         "10", std::runtime_error);
    CHECK(runs >= 11);
    CHECK(runs < 1000);
  }
}

TEST_CASE("of several exceptions the one of the lowest task is rethrown") {
  std::atomic<bool> second_threw{false};
  CHECK_THROWS_WITH_AS(parallel_for(2, 2,
                                    [&](std::int64_t i) {
                                      if (i == 1) {
                                        second_threw = true;
                                        throw std::runtime_error("second");
                                      }
                                      while (!second_threw) std::this_thread::yield();
                                      std::this_thread::sleep_for(std::chrono::milliseconds(20));
                                      throw std::runtime_error("first");
                                    }),
                       "first", std::runtime_error);
}

TEST_CASE("parallel_for may be nested") {
  std::atomic<int> runs{0};
  parallel_for(4, 2, [&](std::int64_t) { parallel_for(4, 2, [&](std::int64_t) { ++runs; }); });
  CHECK(runs == 16);
}

TEST_CASE("cores are at least one and no more than the machine's") {
  CHECK(available_cores() >= 1);
  CHECK(available_cores() <= static_cast<int>(std::thread::hardware_concurrency()));
}

TEST_CASE("the tightest quota on the way to the root counts") {
  const Scratch folder;
  write(folder, "cpu.max", "max 100000\n");
  write(folder, "a/cpu.max", "150000 100000\n");
  write(folder, "a/b/cpu.max", "400000 100000\n");
  const std::string root = folder.path("");
  CHECK(cgroup_cpus("0::/a/b\n", root) == 1.5);
  CHECK(cgroup_cpus("0::/a\n", root) == 1.5);
  CHECK(std::isinf(cgroup_cpus("0::/\n", root)));
  CHECK(std::isinf(cgroup_cpus("0::/elsewhere\n", root)));
  CHECK(std::isinf(cgroup_cpus("", root)));
  CHECK(std::isinf(cgroup_cpus("nonsense\n", root)));
}

TEST_CASE("quotas of the first cgroup version are read too") {
  const Scratch folder;
  write(folder, "cpu/job/cpu.cfs_quota_us", "50000\n");
  write(folder, "cpu/job/cpu.cfs_period_us", "100000\n");
  write(folder, "cpu/cpu.cfs_quota_us", "-1\n");
  write(folder, "cpu/cpu.cfs_period_us", "100000\n");
  const std::string root = folder.path("");
  CHECK(cgroup_cpus("4:memory:/job\n3:cpu,cpuacct:/job\n", root) == 0.5);
  CHECK(std::isinf(cgroup_cpus("4:memory:/job\n3:cpuacct,cpu:/\n", root)));
}

}  // namespace poslab
