// `poslab list methods|models|scalings`: what an experiment's words mean, and which experiments take them.
#pragma once

#include <string>
#include <string_view>

namespace poslab::cli {

// Of one of listed_kinds().
std::string word_list_text(std::string_view kind);
std::string word_list_json(std::string_view kind);

}  // namespace poslab::cli
