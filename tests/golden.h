// Reads the reference values of tests/golden/.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

// Defined in golden.cpp, the one source that is compiled with the folder's path: the others then compile alike in every
// checkout, which compiler caches profit from.
std::string golden_path(const std::string& file);

inline nlohmann::json golden(const std::string& file) {
  std::ifstream in(golden_path(file));
  if (!in) throw std::runtime_error("golden file missing: " + file);
  return nlohmann::json::parse(in);
}
