// One finished part of a long study, in a file of its own: a run that was killed goes on where it stopped.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "poslab/core/folder_lock.h"

namespace poslab {

class KeptResult {
 public:
  // FOLDER/NAME-hash.json, the hash that of `made_with`, which names everything that the numbers depend on. The folder
  // is made where it is missing. Throws std::runtime_error "cannot write ..." when that fails or another run holds it.
  KeptResult(const std::string& folder, const std::string& name, std::map<std::string, std::string> made_with);

  // The `size` numbers (NaN: none) kept before; absent: none yet. Throws std::invalid_argument "[study] ..." naming the
  // file when it does not hold them.
  std::optional<std::vector<double>> find(std::size_t size) const;
  // All or nothing, whenever the process ends.
  void keep(std::span<const double> numbers) const;

 private:
  std::map<std::string, std::string> made_with_;
  std::string path_;
  FolderLock lock_;
};

}  // namespace poslab
