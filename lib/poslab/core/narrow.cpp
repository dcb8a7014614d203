#include "poslab/core/narrow.h"

#include <bit>
#include <cstring>

namespace poslab {

static_assert(std::endian::native == std::endian::little, "narrow_to_bytes stores the machine's own byte order");

void narrow_to_bytes(DType dtype, std::span<const double> values, std::byte* out) {
  const auto store = [&](auto convert) {
    for (double value : values) {
      const auto stored = convert(value);
      std::memcpy(out, &stored, sizeof stored);
      out += sizeof stored;
    }
  };
  switch (dtype) {
    case DType::f64:
      return store([](double v) { return v; });
    case DType::f32:
      return store([](double v) { return static_cast<float>(v); });
    case DType::bf16:
      return store(to_bf16_bits);
    case DType::f16:
      return store(to_f16_bits);
  }
}

}  // namespace poslab
