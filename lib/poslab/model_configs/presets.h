// Configs of public models that travel inside the binary (configs/models/*.json).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace poslab {

// In alphabetical order, without ".json".
std::vector<std::string> preset_names();

// The text of configs/models/<name>.json; empty when there is none.
std::optional<std::string_view> preset_text(std::string_view name);

}  // namespace poslab
