// numpy's random streams, bit for bit: numpy.random.default_rng(seed) (SeedSequence, PCG64 XSL-RR 128/64, ziggurat).
// Source: NEP 19 and numpy 1.24's documented algorithms; checked against golden/numpy_rng.json.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace poslab {

class Generator {
 public:
  // seed 0 .. 2^63-1; throws std::invalid_argument "[Generator] ..." when negative.
  explicit Generator(std::int64_t seed);
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;

  double standard_normal();                                       // rng.standard_normal()
  float standard_normal_f32();                                    // rng.standard_normal(dtype=float32)
  double uniform();                                               // rng.random(), [0, 1)
  float uniform_f32();                                            // rng.random(dtype=float32)
  std::int64_t integer(std::int64_t low, std::int64_t high);      // rng.integers(low, high), int64, high excluded
  std::vector<std::int64_t> permutation(std::int64_t n);          // rng.permutation(n)
  void standard_normal(std::span<double> out);                    // rng.standard_normal(out.size())
  std::vector<double> normals(std::int64_t n, double scale = 1);  // scale * rng.standard_normal(n)

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poslab
