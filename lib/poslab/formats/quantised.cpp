#include "poslab/formats/quantised.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "poslab/core/element_type.h"
#include "poslab/kernels/convert.h"

namespace poslab {
namespace {

static_assert(std::endian::native == std::endian::little, "blocks are read as they stand in the file");

constexpr GgmlTypeInfo types[] = {
    {GgmlType::f32, "F32", 1, 4},       {GgmlType::f16, "F16", 1, 2},       {GgmlType::bf16, "BF16", 1, 2},
    {GgmlType::q8_0, "Q8_0", 32, 34},   {GgmlType::q4_0, "Q4_0", 32, 18},   {GgmlType::q4_1, "Q4_1", 32, 20},
    {GgmlType::q5_0, "Q5_0", 32, 22},   {GgmlType::q5_1, "Q5_1", 32, 24},   {GgmlType::q4_k, "Q4_K", 256, 144},
    {GgmlType::q5_k, "Q5_K", 256, 176}, {GgmlType::q6_k, "Q6_K", 256, 210},
};

// Types that exist and are not read, by their numbers.
constexpr std::pair<std::uint32_t, std::string_view> other_types[] = {
    {9, "Q8_1"},   {10, "Q2_K"},   {11, "Q3_K"},  {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
    {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"}, {23, "IQ4_XS"},  {24, "I8"},     {25, "I16"},
    {26, "I32"},   {27, "I64"},    {28, "F64"},   {29, "IQ1_M"}, {34, "TQ1_0"},   {35, "TQ2_0"},  {39, "MXFP4"}};

using Bytes = const std::uint8_t*;

float half_at(Bytes at) {
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return f16_from_bits(bits);
}

// The legacy types hold 32 numbers: the low halves of 16 bytes, then the high halves.
//   Q4_0  d f16, qs [16]            d (q - 8)
//   Q4_1  d, m f16, qs [16]         d q + m
//   Q5_0  d f16, qh u32, qs [16]    d (q - 16), bit i of qh is the fifth bit of number i
//   Q5_1  d, m f16, qh u32, qs [16] d q + m
//   Q8_0  d f16, q i8 [32]          d q
void q8_0(Bytes block, float* out) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(static_cast<std::int8_t>(block[2 + i])) * d;
}

void q4_0(Bytes block, float* out) {
  const float d = half_at(block);
  Bytes qs = block + 2;
  for (int i = 0; i < 16; ++i) out[i] = d * static_cast<float>((qs[i] & 15) - 8);
  for (int i = 0; i < 16; ++i) out[16 + i] = d * static_cast<float>((qs[i] >> 4) - 8);
}

void q4_1(Bytes block, float* out) {
  const float d = half_at(block), m = half_at(block + 2);
  Bytes qs = block + 4;
  for (int i = 0; i < 16; ++i) out[i] = d * static_cast<float>(qs[i] & 15) + m;
  for (int i = 0; i < 16; ++i) out[16 + i] = d * static_cast<float>(qs[i] >> 4) + m;
}

// The 5-bit numbers of Q5_0 and Q5_1.
void five_bits(Bytes high, Bytes qs, std::int32_t (&q)[32]) {
  std::uint32_t qh;
  std::memcpy(&qh, high, sizeof qh);
  for (int i = 0; i < 16; ++i) q[i] = (qs[i] & 15) | static_cast<std::int32_t>((qh >> i) & 1) << 4;
  for (int i = 0; i < 16; ++i) q[16 + i] = (qs[i] >> 4) | static_cast<std::int32_t>((qh >> (16 + i)) & 1) << 4;
}

void q5_0(Bytes block, float* out) {
  const float d = half_at(block);
  std::int32_t q[32];
  five_bits(block + 2, block + 6, q);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(q[i] - 16);
}

void q5_1(Bytes block, float* out) {
  const float d = half_at(block), m = half_at(block + 2);
  std::int32_t q[32];
  five_bits(block + 4, block + 8, q);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(q[i]) + m;
}

// Eight scales and eight minima of 6 bits in 12 bytes: the first four of each fill the low 6 bits of bytes 0..3 and
// 4..7; the last four have their low 4 bits in bytes 8..11 and their high 2 bits on top of bytes 0..3 and 4..7.
struct SixBits {
  std::array<std::uint8_t, 8> scale, minimum;
  explicit SixBits(Bytes b) {
    for (std::size_t j = 0; j < 4; ++j) {
      scale[j] = b[j] & 63;
      minimum[j] = b[j + 4] & 63;
      scale[j + 4] = static_cast<std::uint8_t>((b[j + 8] & 15) | (b[j] >> 6) << 4);
      minimum[j + 4] = static_cast<std::uint8_t>((b[j + 8] >> 4) | (b[j + 4] >> 6) << 4);
    }
  }
};

// Q4_K: d, dmin f16, 6-bit scales [12], qs [128]. Q5_K: qh [32] before qs. Eight parts of 32 numbers; two parts share
// 32 bytes of qs (low and high halves); bit j of qh[i] is the fifth bit of number i of part j. d scale q - dmin
// minimum.
template <bool fifth>
void q45_k(Bytes block, float* out) {
  const float d = half_at(block), dmin = half_at(block + 2);
  const SixBits six(block + 4);
  Bytes qh = block + 16;
  Bytes qs = block + (fifth ? 48 : 16);
  for (int j = 0; j < 8; ++j, out += 32) {
    const float scale = d * six.scale[static_cast<std::size_t>(j)];
    const float minimum = dmin * six.minimum[static_cast<std::size_t>(j)];
    Bytes part = qs + j / 2 * 32;
    const int shift = j % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      int q = (part[i] >> shift) & 15;
      if constexpr (fifth) q |= ((qh[i] >> j) & 1) << 4;
      out[i] = scale * static_cast<float>(q) - minimum;
    }
  }
}

// Q6_K: low halves ql [128], high pairs of bits qh [64], scales i8 [16], d f16. Two halves of 128 numbers, each four
// parts of 32; a scale serves 16 numbers. d scale (q - 32).
void q6_k(Bytes block, float* out) {
  const float d = half_at(block + 208);
  for (int half = 0; half < 2; ++half) {
    for (int part = 0; part < 4; ++part, out += 32) {
      Bytes ql = block + half * 64 + part % 2 * 32;
      Bytes qh = block + 128 + half * 32;
      Bytes scales = block + 192 + half * 8 + part * 2;
      const float s[2] = {d * static_cast<float>(static_cast<std::int8_t>(scales[0])),
                          d * static_cast<float>(static_cast<std::int8_t>(scales[1]))};
      const int low = part / 2 * 4, high = part * 2;
      for (int i = 0; i < 32; ++i) {
        const int q = ((ql[i] >> low) & 15) | ((qh[i] >> high) & 3) << 4;
        out[i] = s[i / 16] * static_cast<float>(q - 32);
      }
    }
  }
}

template <class Block>
void each_block(const GgmlTypeInfo& info, const std::byte* from, std::span<float> out, Block block) {
  Bytes at = reinterpret_cast<Bytes>(from);
  for (std::size_t i = 0; i < out.size(); i += static_cast<std::size_t>(info.block_size), at += info.block_bytes) {
    block(at, out.data() + i);
  }
}

}  // namespace

const GgmlTypeInfo* find_ggml_type(std::uint32_t number) {
  const auto* found = std::find_if(std::begin(types), std::end(types),
                                   [&](const GgmlTypeInfo& t) { return static_cast<std::uint32_t>(t.type) == number; });
  return found == std::end(types) ? nullptr : found;
}

std::string ggml_type_text(std::uint32_t number) {
  if (const GgmlTypeInfo* known = find_ggml_type(number)) return fmt::format("{} ({})", known->word, number);
  const auto* found = std::find_if(std::begin(other_types), std::end(other_types),
                                   [&](const auto& other) { return other.first == number; });
  return found == std::end(other_types) ? fmt::format("{}", number) : fmt::format("{} ({})", found->second, number);
}

std::string readable_ggml_types() {
  std::string out;
  for (const GgmlTypeInfo& type : types) out += fmt::format("{}{}", out.empty() ? "" : ", ", type.word);
  return out;
}

void dequantise(GgmlType type, const std::byte* from, std::span<float> out) {
  const GgmlTypeInfo* info = find_ggml_type(static_cast<std::uint32_t>(type));
  if (!info || out.size() % static_cast<std::size_t>(info->block_size) != 0) {
    throw std::invalid_argument(fmt::format("[dequantise] {} numbers are no whole number of blocks of type {}.",
                                            out.size(), ggml_type_text(static_cast<std::uint32_t>(type))));
  }
  if (out.empty()) return;
  switch (type) {
    case GgmlType::f32:
      std::memcpy(out.data(), from, out.size_bytes());
      return;
    case GgmlType::f16:
      return widen(from, Storage::f16, out);
    case GgmlType::bf16:
      return widen(from, Storage::bf16, out);
    case GgmlType::q8_0:
      return each_block(*info, from, out, q8_0);
    case GgmlType::q4_0:
      return each_block(*info, from, out, q4_0);
    case GgmlType::q4_1:
      return each_block(*info, from, out, q4_1);
    case GgmlType::q5_0:
      return each_block(*info, from, out, q5_0);
    case GgmlType::q5_1:
      return each_block(*info, from, out, q5_1);
    case GgmlType::q4_k:
      return each_block(*info, from, out, q45_k<false>);
    case GgmlType::q5_k:
      return each_block(*info, from, out, q45_k<true>);
    case GgmlType::q6_k:
      return each_block(*info, from, out, q6_k);
  }
}

}  // namespace poslab
