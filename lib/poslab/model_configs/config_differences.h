// Where two configs of one model disagree about positions.
#pragma once

#include <string>
#include <vector>

#include "poslab/model_configs/model_config.h"

namespace poslab {

// Where the config.json beside a file disagrees with it, one sentence each.
std::vector<std::string> config_differences(const ModelConfig& file, const ModelConfig& config);

}  // namespace poslab
