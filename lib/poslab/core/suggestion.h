// Helps a person who mistyped a name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace poslab {

// ", did you mean 'x'?" for the candidate of least edit distance, or nothing when none is near.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace poslab
