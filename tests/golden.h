// Reads the reference values of tests/golden/.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

inline std::string golden_path(const std::string& file) { return std::string(POSLAB_GOLDEN_DIR) + "/" + file; }

inline nlohmann::json golden(const std::string& file) {
  std::ifstream in(golden_path(file));
  if (!in) throw std::runtime_error("golden file missing: " + file);
  return nlohmann::json::parse(in);
}
