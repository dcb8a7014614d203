#include "experiments/prepared.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cli/run_sweep.h"
#include "experiments/experiment.h"
#include "scratch.h"

using namespace poslab;
using namespace poslab::cli;

namespace {

std::atomic<int> made{0};

struct Model {
  std::int64_t seed;
};

struct Params {
  std::int64_t model = 0, scaling = 0;
  static void fields(auto& self, auto&& field) {
    field("model", self.model);
    field("scaling", self.scaling);
  }
};
struct Summary {
  std::int64_t seen = 0;
  static void fields(auto& self, auto&& field) { field("seen", self.seen); }
};

TypedReport<Summary, NoFields> run(const Params& p, const RunContext& context) {
  const auto model = context.prepared->get<Model>(std::to_string(p.model), [&] {
    ++made;
    return Model{p.model};
  });
  TypedReport<Summary, NoFields> report;
  report.summary.seen = 100 * model->seed + p.scaling;
  return report;
}

int sweep(const std::vector<std::string>& axes, std::int64_t jobs, const std::string& path) {
  const Experiment experiment = describe<Params, Summary, NoFields>("counted", "?", "counted", run);
  Invocation call;
  call.base = {std::int64_t{1}, std::int64_t{0}};
  call.axes = axes;
  call.format = Format::ndjson;
  call.options.jobs = jobs;
  call.options.output = path;
  made = 0;
  CHECK(run_sweep(experiment, call, Streams{}, {}, [](const std::string&) {}) == 0);
  return made;
}

}  // namespace

TEST_CASE("a sweep makes what its points share once, however many run side by side, and anew in the next sweep") {
  const Scratch scratch;
  const std::string path = scratch.path("x.ndjson");
  for (std::int64_t jobs : {1, 4}) {
    CHECK(sweep({"scaling=1:12:+1"}, jobs, path) == 1);
    CHECK(sweep({"model=1,2,3", "scaling=1:12:+1"}, 1, path) == 3);
  }
  std::ifstream lines(path);
  std::string line;
  int n = 0;
  while (std::getline(lines, line)) {
    const std::string seen = "\"seen\": " + std::to_string(100 * (n / 12 + 1) + n % 12 + 1) + "}";
    CHECK(line.find(seen) != std::string::npos);
    ++n;
  }
  CHECK(n == 36);
}

TEST_CASE("what throws while it is made is made again, and only the last key is kept") {
  Prepared prepared;
  int tries = 0;
  const auto failing = [&]() -> Model {
    ++tries;
    throw std::runtime_error("no");
  };
  CHECK_THROWS(prepared.get<Model>("a", failing));
  CHECK_THROWS(prepared.get<Model>("a", failing));
  CHECK(tries == 2);
  const auto first = prepared.get<Model>("a", [] { return Model{7}; });
  CHECK(prepared.get<Model>("a", failing)->seed == 7);
  const std::weak_ptr<const Model> watched = prepared.get<Model>("b", [] { return Model{8}; });
  CHECK(first->seed == 7);
  CHECK(watched.lock()->seed == 8);
  prepared.get<Model>("c", [] { return Model{9}; });
  CHECK(watched.expired());
}
