// A model in a GGUF file, as llama.cpp's converter writes the families of models/families.
#pragma once

#include <string>

#include "poslab/formats/gguf.h"
#include "poslab/models/transformer.h"

namespace poslab {

// Sizes and positions are gguf_config's; which biases there are, and whether the head is tied, is told by the tensors.
// GELU is that of the family in Hugging Face, also where llama.cpp runs another. Throws std::invalid_argument
// "[checkpoint] PATH: ..." for an architecture that does not run (with those that do) and for keys that are missing or
// ask for what poslab's transformer has not, and as gguf_config does.
TransformerConfig gguf_transformer_config(const GgufFile& file);

// Dequantises every tensor; memory is that of the parameters. Throws std::invalid_argument naming the file and the
// tensor for one that is missing, extra or of the wrong shape.
template <class T>
Transformer<T> load_gguf_model(const GgufFile& file, int threads);

}  // namespace poslab
