// What this binary is: for --version and for every document's context.
#pragma once

#include <string>
#include <string_view>

namespace poslab::cli {

std::string_view version();   // of CMakeLists.txt's project()
std::string_view revision();  // git's short hash, with "-dirty", or "unknown" outside a checkout
std::string_view compiler();
std::string version_text();  // the lines of `poslab --version`

}  // namespace poslab::cli
