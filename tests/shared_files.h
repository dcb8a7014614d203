// Files that the project does not ship: real models, in the folder that the environment variable POSLAB_SHARED names,
// else ../shared beside the source tree.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "golden.h"

// Absent, after saying so, where there is no such file: the test returns.
inline std::optional<std::string> shared_file(const std::string& name) {
  const char* given = std::getenv("POSLAB_SHARED");
  const std::filesystem::path folder =
      given ? std::filesystem::path(given) : std::filesystem::path(golden_path("../../../shared"));
  const std::filesystem::path path = folder / name;
  if (std::error_code error; std::filesystem::exists(path, error)) return path.string();
  MESSAGE("skipped: " << path.string() << " is absent (POSLAB_SHARED names the folder of shared files)");
  return std::nullopt;
}
