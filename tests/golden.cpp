#include "golden.h"

std::string golden_path(const std::string& file) { return std::string(POSLAB_GOLDEN_DIR) + "/" + file; }
