#include "poslab/kernels/wave_table.h"

#include <algorithm>
#include <cmath>

#include "poslab/kernels/wave_table.kernel.h"

namespace poslab {

using kernels::wave_block;
using kernels::wave_padding;
using kernels::wave_steps;

namespace {

// Angles that the vector sincos does not reduce, see simd_math.h.
bool beyond_sincos(double position, std::span<const double> inv_freq) {
  constexpr double limit = 5e7;
  const double reach = std::abs(position);
  return std::any_of(inv_freq.begin(), inv_freq.end(), [&](double w) { return !(reach * std::abs(w) <= limit); });
}

template <class T>
void libm_row(double position, std::span<const double> inv_freq, double factor, T* cosines, T* sines) {
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const double angle = position * inv_freq[i];
    cosines[i] = static_cast<T>(factor * std::cos(angle));
    sines[i] = static_cast<T>(factor * std::sin(angle));
  }
}

bool aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 64 == 0; }

}  // namespace

WaveTable::WaveTable(std::span<const double> inv_freq, double factor, Isa isa)
    : n_pairs_(inv_freq.size()), factor_(factor), inv_freq_(inv_freq.begin(), inv_freq.end()), isa_(isa) {
  const std::size_t padded = (n_pairs_ + wave_padding - 1) / wave_padding * wave_padding;
  inv_freq_.resize(padded);
  for (std::size_t k = 1; k <= wave_steps; ++k) {
    for (double w : inv_freq_) steps_.push_back(std::cos(static_cast<double>(k) * w));
    for (double w : inv_freq_) steps_.push_back(std::sin(static_cast<double>(k) * w));
  }
}

void WaveTable::fill(std::int64_t first, std::int64_t count, const WaveTarget& target) const {
  const auto& all = POSLAB_CHOOSE_ISA(isa_, wave_table_kernels);
  const auto& of_type = target.type == Storage::f32 ? all.f32 : target.type == Storage::bf16 ? all.bf16 : all.f16;
  const bool interleaved = target.layout == WaveLayout::interleaved;
  kernels::WaveBlock block;
  block.row_bytes = target.stride * storage_bytes(target.type);
  const bool stream =
      target.stream && aligned(target.sines) && (interleaved || aligned(target.cosines)) && block.row_bytes % 64 == 0;
  const auto fill_block = of_type[interleaved][stream];
  block.inv_freq = inv_freq_.data();
  block.steps = steps_.data();
  block.n_pairs = n_pairs_;
  block.padded = inv_freq_.size();
  block.factor = factor_;
  std::vector<double> anchors;

  constexpr auto rows = static_cast<std::int64_t>(wave_block);
  std::int64_t row = 0;
  while (row < count) {
    const std::int64_t position = first + row;
    const std::int64_t start = position - ((position % rows) + rows) % rows;
    const std::int64_t end = std::min(start + rows, first + count);
    block.position = static_cast<double>(start);
    block.first_row = static_cast<std::size_t>(position - start);
    block.end_row = static_cast<std::size_t>(end - start);
    const std::size_t offset = static_cast<std::size_t>(row) * block.row_bytes;
    block.sines = static_cast<unsigned char*>(target.sines) + offset;
    if (!interleaved) block.cosines = static_cast<unsigned char*>(target.cosines) + offset;
    if (beyond_sincos(block.position, inv_freq_)) {
      anchors.resize(2 * block.padded);
      libm_row(block.position, inv_freq_, factor_, anchors.data(), anchors.data() + block.padded);
      block.anchors = anchors.data();
    } else {
      block.anchors = nullptr;
    }
    fill_block(block);
    row = end - first;
  }
}

void wave_row(double position, std::span<const double> inv_freq, double factor, double* cosines, double* sines,
              Isa isa) {
  if (beyond_sincos(position, inv_freq)) return libm_row(position, inv_freq, factor, cosines, sines);
  POSLAB_CHOOSE_ISA(isa, wave_table_kernels)
      .row_f64(position, inv_freq.data(), inv_freq.size(), factor, cosines, sines);
}

void wave_row(double position, std::span<const double> inv_freq, double factor, float* cosines, float* sines, Isa isa) {
  if (beyond_sincos(position, inv_freq)) return libm_row(position, inv_freq, factor, cosines, sines);
  POSLAB_CHOOSE_ISA(isa, wave_table_kernels)
      .row_f32(position, inv_freq.data(), inv_freq.size(), factor, cosines, sines);
}

}  // namespace poslab
