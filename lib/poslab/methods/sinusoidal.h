// Sinusoidal position vectors: each channel is a wave over the positions (Vaswani et al. 2017, arXiv:1706.03762,
// section 3.5), with the variants that deployed code and common mistakes have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "poslab/core/element_type.h"
#include "poslab/core/fields.h"
#include "poslab/kernels/wave_table.h"
#include "poslab/methods/method.h"
#include "poslab/rope/rope.h"

namespace poslab {

// d = d_model, c = channel, i = pair, n = number of pairs. Odd d, everywhere but in tensor2tensor: the sines have
// ceil(d/2) channels and the cosines floor(d/2), so that the last sine has no partner.
//   paper                   channels 2i and 2i+1: sin and cos of p / base^(2i/d)
//   halves                  the paper's waves, all sines first, then all cosines (Marian, Pegasus in Hugging Face)
//   tensor2tensor           sines, then cosines, of p / base^(i/(n-1)), n = floor(d/2); a last channel of odd d is 0
//   channel-exponent        a mistake: p / base^(c/d), sin on even c and cos on odd c: no two channels share an angle
//   twice-channel-exponent  a mistake: p / base^(2c/d), sin on even c and cos on odd c: the range of angles is squared
enum class SinusoidalVariant { paper, halves, tensor2tensor, channel_exponent, twice_channel_exponent };
constexpr auto words(SinusoidalVariant) {
  return word_table<SinusoidalVariant>({{SinusoidalVariant::paper, "paper"},
                                        {SinusoidalVariant::halves, "halves"},
                                        {SinusoidalVariant::tensor2tensor, "tensor2tensor"},
                                        {SinusoidalVariant::channel_exponent, "channel-exponent"},
                                        {SinusoidalVariant::twice_channel_exponent, "twice-channel-exponent"}});
}

const Method& sinusoidal_method();

struct SinusoidalParams {
  SinusoidalVariant variant = SinusoidalVariant::paper;
  double base = 10000;

  static void fields(auto& self, auto&& field) {
    field("variant", self.variant, "which sinusoidal formula; the last two are common mistakes");
    field("base", self.base, "base of the sinusoidal waves");
  }
};

// The variant's formula on one line, and where it comes from.
std::string_view sinusoidal_formula(SinusoidalVariant variant);
std::string_view sinusoidal_source(SinusoidalVariant variant);

// A table without end: any range of its rows is computed on demand, in double.
class SinusoidalTable final : public InputVectors {
 public:
  // d_model 1 .. 16,777,216; base finite and at least 1; else throws std::invalid_argument "[SinusoidalTable] ...".
  explicit SinusoidalTable(std::int64_t d_model, double base = 10000,
                           SinusoidalVariant variant = SinusoidalVariant::paper);

  std::int64_t d_model() const { return static_cast<std::int64_t>(frequencies_.size()); }
  // [d_model], radians per token: 1 / base^exponent. The lesson's table is sin and cos of position * frequency, to
  // the last bit; position / base^exponent would round otherwise.
  const std::vector<double>& frequencies() const { return frequencies_; }
  // [d_model], 1 where the channel is a cosine.
  const std::vector<char>& cosines() const { return cosines_; }
  // The frequency of each sine and cosine pair; empty where a channel has no partner. With partners, the product of
  // two rows is cosine_sum(pair_frequencies(), distance): it depends on their distance alone.
  const std::vector<double>& pair_frequencies() const { return pair_frequencies_; }

  // Rows first_position, first_position + 1, ... into out, whose size is a multiple of d_model.
  void fill(std::int64_t first_position, std::span<double> out) const override;

  // `count` of the same rows narrowed once to `dtype`. Where the channels share angles by twos (partners, even
  // d_model), f32, bf16 and f16 come at the speed of memory and are within 4e-15 + 2.3e-16 * angle of the true value
  // before they are narrowed. `stream` writes past the caches, for a table larger than they are.
  void fill_narrowed(std::int64_t first_position, std::int64_t count, DType dtype, std::byte* out,
                     bool stream = false) const;

 private:
  std::vector<double> frequencies_;
  std::vector<char> cosines_;
  std::vector<double> pair_frequencies_;
  std::optional<WaveTable> waves_;  // of the pairs, where fill_narrowed can use it
};

}  // namespace poslab
