// What a GGUF file means for its model's positions, as llama.cpp runs it: the same facts as hf_config.h takes from a
// config.json.
#pragma once

#include <cstdint>
#include <vector>

#include "poslab/formats/gguf.h"
#include "poslab/model_configs/model_config.h"

namespace poslab {

// Key "llama.rope.freq_base" and so on by general.architecture, which also says the layout of the stored q and k: Llama
// and its kin stand permuted for interleaved pairs, others as in Hugging Face, in halves. rope_freqs.weight
// (Llama 3.1's stretching, worked out per pair) and rope_factors_{short,long}.weight become lists of divisors, one per
// pair. Throws std::invalid_argument "[gguf_config] PATH: ..." for an architecture that is not known (with those that
// are), sizes that are absent, not above 0 or do not fit the q and k tensors, and scalings without meaning.
ModelConfig gguf_config(const GgufFile& file);

// Which layers see a window only, [block_count], and its tokens; empty and 0 where none does.
// attention.sliding_window_pattern lists the layers or is a period, whose last layer sees everything; absent: the
// architecture's own (six for Gemma 3).
struct SlidingWindow {
  std::vector<bool> layers;
  std::int64_t tokens = 0;
};
SlidingWindow gguf_sliding_window(const GgufFile& file);

}  // namespace poslab
