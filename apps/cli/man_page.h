// The man page poslab(1), in roff.
#pragma once

#include <string>

namespace poslab::cli {

std::string man_page();

}  // namespace poslab::cli
