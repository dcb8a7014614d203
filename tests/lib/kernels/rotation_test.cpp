#include "poslab/kernels/rotation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "poslab/core/element_type.h"
#include "poslab/core/random.h"

using namespace poslab;

namespace {

constexpr std::size_t rows = 3;

// Elements of one type as their bits, so that results compare exactly.
struct Tensor {
  Tensor(Storage t, std::size_t n, std::size_t shift_elements = 0) : type(t), size(n), shift(shift_elements) {
    bits.assign((n + shift) * storage_bytes(t) + 64, 0x5a);
  }
  unsigned char* data() { return bits.data() + shift * storage_bytes(type); }
  const unsigned char* data() const { return bits.data() + shift * storage_bytes(type); }
  double get(std::size_t i) const {
    if (type == Storage::f32) {
      float v;
      std::memcpy(&v, data() + i * sizeof v, sizeof v);
      return static_cast<double>(v);
    }
    std::uint16_t v;
    std::memcpy(&v, data() + i * sizeof v, sizeof v);
    return static_cast<double>(type == Storage::bf16 ? bf16_from_bits(v) : f16_from_bits(v));
  }
  void set(std::size_t i, double value) {
    if (type == Storage::f32) {
      const float v = static_cast<float>(value);
      std::memcpy(data() + i * sizeof v, &v, sizeof v);
    } else {
      const std::uint16_t v = type == Storage::bf16 ? to_bf16_bits(value) : to_f16_bits(value);
      std::memcpy(data() + i * sizeof v, &v, sizeof v);
    }
  }
  bool same_values(const Tensor& other) const {
    return std::memcmp(data(), other.data(), size * storage_bytes(type)) == 0;
  }
  bool guards_intact() const {
    return std::all_of(bits.end() - 64, bits.end(), [](unsigned char b) { return b == 0x5a; });
  }
  Storage type;
  std::size_t size, shift;
  std::vector<unsigned char> bits;
};

// Element by element, each operation rounded to f32.
void plain_rotation(const RotationRows& r, const Tensor& x, Tensor& out) {
  for (std::size_t row = 0; row < r.rows; ++row) {
    for (std::size_t i = 0; i < r.width; ++i) out.set(row * r.width + i, x.get(row * r.width + i));
    for (std::size_t i = 0; i < r.n_pairs; ++i) {
      const std::size_t first = row * r.width + (r.half ? i : 2 * i), second = first + (r.half ? r.n_pairs : 1);
      const float a = static_cast<float>(x.get(first)), b = static_cast<float>(x.get(second));
      const float c = r.cosines[row * r.n_pairs + i];
      const float s = r.inverse ? -r.sines[row * r.n_pairs + i] : r.sines[row * r.n_pairs + i];
      const float ac = a * c, bs = b * s, as = a * s, bc = b * c;
      out.set(first, static_cast<double>(ac - bs));
      out.set(second, static_cast<double>(as + bc));
    }
  }
}

}  // namespace

TEST_CASE(
    "rotations of every width are exact to the bit, in and out of place, streaming or not, on every instruction "
    "set") {
  Generator random(3);
  for (Storage type : {Storage::f32, Storage::bf16, Storage::f16}) {
    for (std::size_t n_pairs = 0; n_pairs <= 33; ++n_pairs) {
      for (std::size_t extra : {0, 1, 30}) {
        const std::size_t width = 2 * n_pairs + extra;
        std::vector<float> cosines(rows * n_pairs), sines(rows * n_pairs);
        for (float& c : cosines) c = random.standard_normal_f32();
        for (float& s : sines) s = random.standard_normal_f32();
        for (std::size_t shift : {0, 1}) {
          Tensor x(type, rows * width, shift);
          for (std::size_t i = 0; i < x.size; ++i) x.set(i, random.standard_normal());
          for (int variant = 0; variant < 4; ++variant) {
            RotationRows r;
            r.type = type;
            r.half = variant % 2 != 0;
            r.inverse = variant / 2 != 0;
            r.x_stride = r.out_stride = r.width = width;
            r.rows = rows;
            r.table_stride = r.n_pairs = n_pairs;
            r.cosines = cosines.data();
            r.sines = sines.data();
            Tensor expected(type, x.size);
            plain_rotation(r, x, expected);
            for (Isa isa : supported_isas()) {
              Tensor out(type, x.size, shift), in_place = x;
              r.x = x.data();
              r.out = out.data();
              r.stream = true;
              rotate_rows(r, isa);
              CHECK(out.same_values(expected));
              CHECK(out.guards_intact());
              r.x = r.out = in_place.data();
              r.stream = false;
              rotate_rows(r, isa);
              CHECK(in_place.same_values(expected));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("aligned rows stream to the same bits") {
  constexpr std::size_t n_pairs = 64, width = 128;
  Generator random(4);
  for (Storage type : {Storage::f32, Storage::bf16, Storage::f16}) {
    std::vector<float> cosines(rows * n_pairs), sines(rows * n_pairs);
    for (float& c : cosines) c = random.standard_normal_f32();
    for (float& s : sines) s = random.standard_normal_f32();
    Tensor x(type, rows * width), expected(type, rows * width), room(type, rows * width + 64);
    for (std::size_t i = 0; i < x.size; ++i) x.set(i, random.standard_normal());
    RotationRows r;
    r.type = type;
    r.x_stride = r.out_stride = r.width = width;
    r.rows = rows;
    r.table_stride = r.n_pairs = n_pairs;
    r.cosines = cosines.data();
    r.sines = sines.data();
    r.x = x.data();
    r.stream = true;
    for (bool half : {false, true}) {
      r.half = half;
      plain_rotation(r, x, expected);
      for (Isa isa : supported_isas()) {
        auto* out = room.data() + (64 - reinterpret_cast<std::uintptr_t>(room.data()) % 64) % 64;
        r.out = out;
        rotate_rows(r, isa);
        CHECK(std::memcmp(out, expected.data(), x.size * storage_bytes(type)) == 0);
      }
    }
  }
}
