#include "poslab/kernels/wave_table.h"

#include <algorithm>
#include <cmath>

#include "poslab/kernels/wave_table.kernel.h"

namespace poslab {

using kernels::wave_block;
using kernels::wave_padding;
using kernels::wave_steps;

namespace {

constexpr double sincos_limit = 5e7;  // see simd_math.h

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
  for (double w : inv_freq) largest_ = std::max(largest_, std::abs(w));
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
    if (std::abs(block.position) * largest_ > sincos_limit) {
      anchors.resize(2 * block.padded);
      for (std::size_t i = 0; i < block.padded; ++i) {
        anchors[i] = factor_ * std::cos(block.position * inv_freq_[i]);
        anchors[block.padded + i] = factor_ * std::sin(block.position * inv_freq_[i]);
      }
      block.anchors = anchors.data();
    } else {
      block.anchors = nullptr;
    }
    fill_block(block);
    row = end - first;
  }
}

void wave_row(double position, std::span<const double> inv_freq, double factor, float* cosines, float* sines, Isa isa) {
  double largest = 0;
  for (double w : inv_freq) largest = std::max(largest, std::abs(w));
  if (std::abs(position) * largest > sincos_limit) {
    for (std::size_t i = 0; i < inv_freq.size(); ++i) {
      cosines[i] = static_cast<float>(factor * std::cos(position * inv_freq[i]));
      sines[i] = static_cast<float>(factor * std::sin(position * inv_freq[i]));
    }
    return;
  }
  POSLAB_CHOOSE_ISA(isa, wave_table_kernels).row(position, inv_freq.data(), inv_freq.size(), factor, cosines, sines);
}

}  // namespace poslab
