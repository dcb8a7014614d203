// The kernels at the sizes people quote, each beside the memcpy, constant fill or matrix product that bounds it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace poslab {

struct BenchCase {
  std::string name;   // "rotate/f32/half/out_of_place/32x8192x128"
  std::string limit;  // the case that bounds it; empty for those that are bounds themselves
  double bytes = 0;   // read and written by one run; 0 where floating-point operations are counted
  double flops = 0;
  // Allocates and touches the data; what it returns is one run.
  std::function<std::function<void()>(int threads)> prepare;
};

// In the order to run them in: each bound stands right before what it bounds.
std::vector<BenchCase> bench_cases();

}  // namespace poslab
