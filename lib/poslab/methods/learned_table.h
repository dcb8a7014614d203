// Learned position vectors: one trained row per position and nothing beyond the last (GPT-2, BERT). A trained table is
// read from a file; before training it is drawn as GPT-2 does, normal with standard deviation 0.02.
#pragma once

#include <cstdint>
#include <span>

#include "poslab/core/random.h"
#include "poslab/core/tensor.h"
#include "poslab/methods/method.h"

namespace poslab {

class LearnedTable final : public InputVectors {
 public:
  // [max_position_embeddings, d_model]. Throws std::invalid_argument "[LearnedTable] ..." for a table without values.
  explicit LearnedTable(Tensor<double, 2> values);
  // The same from the generator's next normals, times 0.02; at most 2^28 values.
  LearnedTable(std::int64_t max_position_embeddings, std::int64_t d_model, Generator& generator);

  std::int64_t max_position_embeddings() const { return extent(values_, 0); }
  std::int64_t d_model() const { return extent(values_, 1); }
  // The vector of a position; throws std::invalid_argument "[LearnedTable] ..." for one that has none.
  std::span<const double> row(std::int64_t position) const;
  void fill(std::int64_t first_position, std::span<double> out) const override;

 private:
  Tensor<double, 2> values_;
};

}  // namespace poslab
