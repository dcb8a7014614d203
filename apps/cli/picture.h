// Draws a report's pictures with block characters.
#pragma once

#include <string>

#include "poslab/report/report.h"

namespace poslab::cli {

// At most `width` columns; `color` paints heat maps blue to red and series apart, else shades and marks serve.
std::string draw(const Picture& picture, int width, bool color);

}  // namespace poslab::cli
