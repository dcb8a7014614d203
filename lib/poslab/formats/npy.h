// numpy's .npy files, versions 1 to 3 (NEP 1). Own code, since xtensor's reader asserts or allocates from the header
// unchecked where a user needs a sentence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "poslab/core/element_type.h"
#include "poslab/core/tensor.h"

namespace poslab {

template <class T>
struct NpyArray {
  std::vector<std::int64_t> shape;  // empty: a single value
  std::vector<T> values;            // C order, whatever the file's
};

// An array of f2, f4, f8, i1 .. i8, u1 .. u8 or bool, little or big endian, C or Fortran order. Both readers throw
// std::invalid_argument "[read_npy] PATH: ..." for a path that cannot be read or is no regular file, for what is not
// .npy, another dtype, a shape that overflows, and a file longer or shorter than its header says; nothing is
// allocated before the header agrees with the file's size.

// As doubles; integers beyond 2^53 that a double cannot hold are refused.
NpyArray<double> read_npy(const std::string& path);
// The same of bytes in memory; `name` stands in errors.
NpyArray<double> read_npy_bytes(const std::string& name, std::span<const std::byte> bytes);
// Integers and bools only, exactly; those beyond 2^63 - 1 are refused.
NpyArray<std::int64_t> read_npy_integers(const std::string& path);

// A table [rows, columns] of finite numbers with at least one row and column; else std::invalid_argument.
Tensor<double, 2> read_npy_matrix(const std::string& path);

// "64 x 32"; "a single value" without dimensions.
std::string shape_text(std::span<const std::int64_t> shape);

// The bytes before the data: version 1, C order, padded to 64 bytes. f64 is '<f8', f32 '<f4', f16 '<f2'; numpy has no
// bf16, so its bit patterns are stored as '<u2' (np.load(path).astype(np.uint32) << 16, viewed as float32). The data
// that belongs to it is narrow_to_bytes' (core/narrow.h).
std::string npy_header(DType dtype, std::span<const std::int64_t> shape);

}  // namespace poslab
