// poslab_benchmarks: bench_cases() under Google Benchmark. POSLAB_THREADS sets the threads (default: all cores).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>

#include "bench/bench_cases.h"
#include "poslab/core/numbers.h"
#include "poslab/core/threads.h"
#include "poslab/kernels/isa.h"
#include "poslab/kernels/blas.h"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const char* wanted = std::getenv("POSLAB_THREADS");
  const int threads =
      wanted ? static_cast<int>(poslab::parse_integer(wanted, "POSLAB_THREADS")) : poslab::available_cores();
  poslab::load_blas();
  benchmark::AddCustomContext("poslab_threads", std::to_string(threads));
  benchmark::AddCustomContext("poslab_isa", std::string(to_word(poslab::active_isa())));
  benchmark::AddCustomContext("poslab_blas", poslab::blas_name());
  for (const poslab::BenchCase& c : poslab::bench_cases()) {
    benchmark::RegisterBenchmark(
        c.name.c_str(),
        [c, threads](benchmark::State& state) {
          const auto run = c.prepare(threads);
          run();
          double fastest = std::numeric_limits<double>::infinity();
          for (auto _ : state) {
            const auto begin = std::chrono::steady_clock::now();
            run();
            fastest =
                std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
          }
          // The mean that Google Benchmark reports holds every interruption by other processes.
          state.counters["min_s"] = fastest;
          const auto runs = static_cast<double>(state.iterations());
          if (c.bytes > 0)
            state.counters["bytes_per_second"] = benchmark::Counter(c.bytes * runs, benchmark::Counter::kIsRate);
          if (c.flops > 0) state.counters["flops"] = benchmark::Counter(c.flops * runs, benchmark::Counter::kIsRate);
          if (!c.limit.empty()) state.SetLabel("beside " + c.limit);
        })
        ->UseRealTime()
        ->MeasureProcessCPUTime()
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
