// Learned position vectors: one trained row per position and nothing beyond the last (GPT-2, BERT).
#pragma once

#include <cstdint>

namespace poslab {

class Method;
const Method& learned_method();

// Throws std::invalid_argument "[learned_positions] ..." unless a text of n_positions tokens fits a table of
// max_position_embeddings rows; the message names both and says what to do.
void require_learned_positions(std::int64_t n_positions, std::int64_t max_position_embeddings);

}  // namespace poslab
