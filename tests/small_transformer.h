// A transformer that computes in a moment: two layers of two heads.
#pragma once

#include <cstdint>

#include "poslab/models/transformer_config.h"

inline poslab::TransformerConfig small_transformer(std::int64_t vocab_size, poslab::PositionEncoding encoding,
                                                   std::int64_t trained_length, std::int64_t d_model = 16) {
  poslab::TransformerConfig c;
  c.vocab_size = vocab_size;
  c.d_model = d_model;
  c.n_layers = 2;
  c.n_heads = c.n_kv_heads = 2;
  c.head_dim = d_model / 2;
  c.d_ff = 2 * d_model;
  c.max_position_embeddings = trained_length;
  c.rope = poslab::plain_rope(c.head_dim);
  c.encoding = encoding;
  return c;
}
