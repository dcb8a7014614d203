// Vectors before and after an engine rotated them, and its tables.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "poslab/core/element_type.h"

namespace poslab {

struct VectorDump {
  std::span<const double> input, output;
  std::int64_t head_dim = 0;
  std::int64_t n_vectors = 1;                         // at each place: heads
  std::int64_t n_batches = 1;                         // batch rows; the places of one follow each other
  DType stored_as = DType::f32;                       // the coarsest type that holds the output
  bool has_pairing = true;                            // false: a table, whose pairs are known
  std::vector<double> positions;                      // [places] tokens
  std::vector<std::int64_t> input_rows, output_rows;  // [places, n_vectors] where each row of head_dim begins
};

// The coarsest type that holds all values: how they were stored.
DType storage_type(std::span<const double> values);

}  // namespace poslab
