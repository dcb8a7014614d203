#include "poslab/core/random.h"

#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <pcg_random.hpp>
#include <stdexcept>
#include <string>
#include <utility>

namespace poslab {
namespace {

#include "poslab/core/ziggurat_tables.inc"

// Where the ziggurat's tail begins, and its reciprocal.
constexpr double tail_start = 3.6541528853610087963519472518;
constexpr double tail_start_inverse = 0.27366123732975827203338247596;

constexpr std::uint32_t fold(std::uint32_t x) { return x ^ (x >> 16); }

// The first 256 bits of numpy.random.SeedSequence(seed): O'Neill's seed_seq_fe with a pool of four words.
std::array<std::uint64_t, 4> seed_words(std::uint64_t seed) {
  std::uint32_t multiplier = 0x43b0d7e5;
  const auto hash = [&multiplier](std::uint32_t value) {
    value ^= multiplier;
    multiplier *= 0x931e8875;
    return fold(value * multiplier);
  };
  std::array<std::uint32_t, 4> pool{};
  pool[0] = hash(static_cast<std::uint32_t>(seed));
  pool[1] = hash(static_cast<std::uint32_t>(seed >> 32));
  pool[2] = hash(0);
  pool[3] = hash(0);
  for (std::size_t from = 0; from < pool.size(); ++from) {
    for (std::size_t to = 0; to < pool.size(); ++to) {
      if (from != to) pool[to] = fold(0xca01f9dd * pool[to] - 0x4973f715 * hash(pool[from]));
    }
  }
  std::uint32_t output_multiplier = 0x8b51f9dd;
  const auto next = [&](std::size_t i) -> std::uint64_t {
    std::uint32_t value = pool[i % pool.size()] ^ output_multiplier;
    output_multiplier *= 0x58f38ded;
    return fold(value * output_multiplier);
  };
  std::array<std::uint64_t, 4> words{};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint64_t low = next(2 * i);
    words[i] = low | next(2 * i + 1) << 32;
  }
  return words;
}

pcg64 make_engine(std::int64_t seed) {
  if (seed < 0) {
    throw std::invalid_argument("[Generator] seed must be between 0 and 9223372036854775807 but got " +
                                std::to_string(seed) + ".");
  }
  const auto words = seed_words(static_cast<std::uint64_t>(seed));
  using Word = pcg64::state_type;
  return pcg64((Word(words[0]) << 64) | Word(words[1]), (Word(words[2]) << 64) | Word(words[3]));
}

}  // namespace

struct Generator::State {
  pcg64 engine;
  bool has_half = false;  // the upper half of a 64-bit draw waits for the next 32-bit one
  std::uint32_t half = 0;

  std::uint64_t bits64() { return engine(); }

  std::uint32_t bits32() {
    if (has_half) {
      has_half = false;
      return half;
    }
    const std::uint64_t bits = engine();
    has_half = true;
    half = static_cast<std::uint32_t>(bits >> 32);
    return static_cast<std::uint32_t>(bits);
  }

  double uniform() { return static_cast<double>(bits64() >> 11) * 0x1p-53; }
  float uniform_f32() { return static_cast<float>(bits32() >> 8) * 0x1p-24F; }

  // Marsaglia and Tsang (2000), "The ziggurat method for generating random variables", 256 layers.
  double normal() {
    while (true) {
      const std::uint64_t bits = bits64();
      const std::size_t layer = bits & 0xff;
      const std::uint64_t magnitude = (bits >> 9) & 0x000fffffffffffff;
      // The sign without a branch, which would be guessed wrong every other time.
      const std::uint64_t sign = (bits >> 8 & 1) << 63;
      const double x =
          std::bit_cast<double>(std::bit_cast<std::uint64_t>(static_cast<double>(magnitude) * wi_double[layer]) ^ sign);
      if (magnitude < ki_double[layer]) return x;
      if (layer == 0) {
        while (true) {
          const double xx = -tail_start_inverse * std::log1p(-uniform());
          const double yy = -std::log1p(-uniform());
          if (yy + yy > xx * xx) return (magnitude >> 8) & 1 ? -(tail_start + xx) : tail_start + xx;
        }
      }
      if ((fi_double[layer - 1] - fi_double[layer]) * uniform() + fi_double[layer] < std::exp(-0.5 * x * x)) return x;
    }
  }

  float normal_f32() {
    constexpr auto start = static_cast<float>(tail_start);
    constexpr auto start_inverse = static_cast<float>(tail_start_inverse);
    while (true) {
      const std::uint32_t bits = bits32();
      const std::size_t layer = bits & 0xff;
      const std::uint32_t magnitude = (bits >> 9) & 0x007fffff;
      float x = static_cast<float>(magnitude) * wi_float[layer];
      if ((bits >> 8) & 1) x = -x;
      if (magnitude < ki_float[layer]) return x;
      if (layer == 0) {
        while (true) {
          const float xx = -start_inverse * std::log1p(-uniform_f32());
          const float yy = -std::log1p(-uniform_f32());
          if (yy + yy > xx * xx) return (magnitude >> 8) & 1 ? -(start + xx) : start + xx;
        }
      }
      // The comparison is made in double, as numpy does.
      const double height = (fi_float[layer - 1] - fi_float[layer]) * uniform_f32() + fi_float[layer];
      if (height < std::exp(-0.5 * x * x)) return x;
    }
  }

  // 0 .. span inclusive. Lemire (2019), "Fast random integer generation in an interval", arXiv:1805.10941; spans below
  // 2^32 take halves of the 64-bit draws, as numpy's default does.
  std::uint64_t bounded(std::uint64_t span) {
    if (span == 0) return 0;
    if (span == 0xffffffff) return bits32();
    if (span < 0xffffffff) {
      const auto count = static_cast<std::uint32_t>(span + 1);
      std::uint64_t product = std::uint64_t{bits32()} * count;
      if (static_cast<std::uint32_t>(product) < count) {
        const std::uint32_t threshold = (0xffffffff - static_cast<std::uint32_t>(span)) % count;
        while (static_cast<std::uint32_t>(product) < threshold) product = std::uint64_t{bits32()} * count;
      }
      return product >> 32;
    }
    using Wide = pcg64::state_type;
    const std::uint64_t count = span + 1;
    Wide product = Wide(bits64()) * count;
    if (static_cast<std::uint64_t>(product) < count) {
      const std::uint64_t threshold = (~std::uint64_t{0} - span) % count;
      while (static_cast<std::uint64_t>(product) < threshold) product = Wide(bits64()) * count;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  // 0 .. span inclusive, by cutting draws to span's width until one fits: how numpy's shuffle draws.
  std::uint64_t masked(std::uint64_t span) {
    const std::uint64_t mask = std::bit_ceil(span + 1) - 1;
    while (true) {
      const std::uint64_t value = (span <= 0xffffffff ? bits32() : bits64()) & mask;
      if (value <= span) return value;
    }
  }
};

Generator::Generator(std::int64_t seed) : state_(new State{make_engine(seed)}) {}
Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;

double Generator::standard_normal() { return state_->normal(); }
float Generator::standard_normal_f32() { return state_->normal_f32(); }
double Generator::uniform() { return state_->uniform(); }
float Generator::uniform_f32() { return state_->uniform_f32(); }

std::int64_t Generator::integer(std::int64_t low, std::int64_t high) {
  if (low >= high) {
    throw std::invalid_argument("[integer] low must be below high but got " + std::to_string(low) + " and " +
                                std::to_string(high) + ".");
  }
  const std::uint64_t span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) - 1;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + state_->bounded(span));
}

std::vector<std::int64_t> Generator::permutation(std::int64_t n) {
  if (n < 0) throw std::invalid_argument("[permutation] n must not be negative but got " + std::to_string(n) + ".");
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[state_->masked(i)]);
  return order;
}

void Generator::standard_normal(std::span<double> out) {
  State state = *state_;  // in registers, not behind a pointer
  for (double& value : out) value = state.normal();
  *state_ = state;
}

std::vector<double> Generator::normals(std::int64_t n, double scale) {
  if (n < 0) throw std::invalid_argument("[normals] n must not be negative but got " + std::to_string(n) + ".");
  std::vector<double> out(static_cast<std::size_t>(n));
  for (double& x : out) x = scale * state_->normal();
  return out;
}

}  // namespace poslab
