#include "bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "bench/bench_cases.h"
#include "poslab/core/suggestion.h"
#include "poslab/kernels/blas.h"

namespace poslab {
namespace {

struct Params {
  std::string filter;
  double seconds = 0.3;
  static void fields(auto& self, auto&& field) {
    field("filter", self.filter, "only the kernels whose name holds this text; empty: all");
    field("seconds", self.seconds, "time for each kernel, and as much for its bound", "s");
  }
};

struct Summary {
  std::string blas_kernel;
  std::int64_t kernels = 0;
  static void fields(auto& self, auto&& field) {
    field("blas_kernel", self.blas_kernel, "the matrix products beside attention: OpenBLAS and the kernel it found");
    field("kernels", self.kernels, "kernels measured");
  }
};

struct Row {
  std::string name;
  double min_ms = 0, median_ms = 0;
  std::optional<double> gb_per_s, gflop_per_s;
  std::string bound;
  double bound_min_ms = 0, ratio = 0;
  static void fields(auto& self, auto&& field) {
    field("name", self.name, "kernel, element type, variant, sizes");
    field("min_ms", self.min_ms, "fastest run", "ms");
    field("median_ms", self.median_ms, "median run", "ms");
    field("gb_per_s", self.gb_per_s, "bytes read and written, by the fastest run", "GB/s");
    field("gflop_per_s", self.gflop_per_s, "floating-point operations, by the fastest run", "GFLOP/s");
    field("bound", self.bound, "what it is measured beside, in turn");
    field("bound_min_ms", self.bound_min_ms, "the bound's fastest run", "ms");
    field("ratio", self.ratio, "of the rates: time per byte or operation over the bound's; 1 is at the limit");
  }
};

double seconds_of(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TypedReport<Summary, Row> run(const Params& params, const RunContext& context) {
  if (!(params.seconds > 0))
    throw std::invalid_argument(fmt::format("[bench] seconds must be above 0 but is {}", params.seconds));
  load_blas();
  const std::vector<BenchCase> cases = bench_cases();
  std::vector<std::pair<const BenchCase*, const BenchCase*>> pairs;
  std::vector<std::string> names;
  for (const BenchCase& c : cases) {
    if (c.limit.empty()) continue;
    names.push_back(c.name);
    if (c.name.find(params.filter) == std::string::npos) continue;
    const auto bound =
        std::find_if(cases.begin(), cases.end(), [&](const BenchCase& other) { return other.name == c.limit; });
    if (bound == cases.end()) throw std::logic_error("[bench] no case is named " + c.limit);
    pairs.emplace_back(&c, &*bound);
  }
  if (pairs.empty()) {
    throw std::invalid_argument(
        fmt::format("[bench] no kernel's name holds '{}'{}", params.filter, suggestion(params.filter, names)));
  }

  TypedReport<Summary, Row> report;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto& [kernel, bound] = pairs[i];
    const auto run_kernel = kernel->prepare(context.threads), run_bound = bound->prepare(context.threads);
    run_kernel();
    run_bound();
    std::vector<double> times, bound_times;
    double spent = 0;
    // In turn, so that whatever else the machine does meets both.
    while (times.size() < 3 || spent < 2 * params.seconds) {
      times.push_back(seconds_of(run_kernel));
      bound_times.push_back(seconds_of(run_bound));
      spent += times.back() + bound_times.back();
    }
    std::sort(times.begin(), times.end());
    const double fastest = times.front();
    const double bound_fastest = *std::min_element(bound_times.begin(), bound_times.end());
    Row row{kernel->name, 1e3 * fastest, 1e3 * times[times.size() / 2], {}, {}, bound->name, 1e3 * bound_fastest, 0};
    const bool by_bytes = kernel->bytes > 0;
    const double work = by_bytes ? kernel->bytes : kernel->flops, bound_work = by_bytes ? bound->bytes : bound->flops;
    (by_bytes ? row.gb_per_s : row.gflop_per_s) = work / fastest / 1e9;
    row.ratio = (fastest / work) / (bound_fastest / bound_work);
    report.rows.push_back(row);
    context.progress(static_cast<double>(i + 1) / static_cast<double>(pairs.size()));
  }
  report.summary = {blas_name(), static_cast<std::int64_t>(pairs.size())};
  report.conclusion =
      "Each kernel beside what bounds it: a copy, a constant fill or a matrix product of the same size, run in turn.\n"
      "A ratio of 1 means that the machine, not the kernel, is the limit.";
  return report;
}

}  // namespace

const Experiment& bench() {
  static const Experiment experiment = describe<Params, Summary, Row>(
      "bench", "How near the machine's limit do the kernels run here?", "poslab bench --filter rotate", run);
  return experiment;
}

}  // namespace poslab
