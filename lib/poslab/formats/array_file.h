// One array out of any file that holds arrays.
#pragma once

#include <string>

#include "poslab/formats/npy.h"

namespace poslab {

// `place`: FILE.npy, FILE.npz:NAME or FILE.safetensors:NAME; without a name the file's only array. Types that numpy
// has, bf16 too. Throws std::invalid_argument as the format's reader does, naming the arrays that there are, and for
// PyTorch files (.pt, .pth, .bin), naming the script that converts them.
NpyArray<double> read_array(const std::string& place);

}  // namespace poslab
