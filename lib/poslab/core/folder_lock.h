// One writer for a folder, across processes.
#pragma once

#include <string>

namespace poslab {

// Holds FOLDER.lock, beside the folder, while it lives; the system frees it when the process ends in any way.
class FolderLock {
 public:
  // Throws std::runtime_error "cannot write FOLDER: ..." where the file cannot be made or another run holds it.
  explicit FolderLock(std::string folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace poslab
