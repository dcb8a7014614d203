// RoPE as a method: queries and keys rotate by their positions; rope/ holds frequencies, scalings and rotation.
#pragma once

namespace poslab {

class Method;
const Method& rope_method();

}  // namespace poslab
