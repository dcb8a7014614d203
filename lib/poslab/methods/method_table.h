// What `table` shows of a method: vectors by position, numbers by distance, or buckets of distances.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "poslab/core/element_type.h"
#include "poslab/rope/rope.h"

namespace poslab {

struct MethodModel;

// What is asked for. Where the user gave no size, the table file's, else the method's own fallback.
struct TableRequest {
  const MethodModel& model;
  std::int64_t rows = 64;  // positions, or distances 0 .. rows - 1
  std::int64_t seed = 0;
  bool all_variants = false;         // beside the one asked for
  std::vector<double> trained = {};  // [model.max_position_embeddings, d_model] of a file, else empty
  std::string trained_file = {};
  std::vector<double> inv_freq = {};  // of a rotation, radians per token
  RopeLayout layout = RopeLayout::interleaved;
};

// A vector for each position.
struct VectorTable {
  std::string name;  // the variant, where the method has several
  std::string formula, source, note;
  std::int64_t columns = 0;
  // Rows first, first + 1, ... into out; from any thread.
  std::function<void(std::int64_t first, std::span<double> out)> fill;
  // Optional, faster: `count` rows as elements of `dtype`.
  std::function<void(std::int64_t first, std::int64_t count, DType dtype, std::byte* out)> fill_narrowed = nullptr;
  std::vector<double> frequencies;       // of its waves, radians per token; empty: no waves
  std::vector<double> pair_frequencies;  // where the product of two rows depends on their distance alone
};

// Numbers for each distance, one row for each head or pair.
struct DistanceTable {
  std::string formula, source, conclusion, title;
  bool by_pair = false;  // else by head
  std::int64_t rows = 0;
  std::function<double(std::int64_t row, std::int64_t distance)> at;
  std::function<std::optional<double>(std::int64_t row)> slope;  // absent: none
};

// A bucket for each relative position, key minus query.
struct BucketTable {
  std::string formula, source, conclusion;
  std::function<std::int64_t(std::int64_t relative)> bucket;
};

// One of the three.
struct MethodTable {
  std::vector<VectorTable> vectors;  // the one asked for first
  std::optional<DistanceTable> by_distance;
  std::optional<BucketTable> buckets;
};

}  // namespace poslab
