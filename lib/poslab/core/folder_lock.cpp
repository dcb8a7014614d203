#include "poslab/core/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace poslab {

FolderLock::FolderLock(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  path_ = folder + ".lock";
  // Again when the file was removed by the run that held it, between opening and locking.
  for (struct stat held{}, named{}; file_ < 0;) {
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0) throw std::runtime_error(fmt::format("cannot write {}: {}", folder, std::strerror(errno)));
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      ::close(file_);
      throw std::runtime_error(fmt::format("cannot write {}: another run is writing it", folder));
    }
    if (::fstat(file_, &held) == 0 && ::stat(path_.c_str(), &named) == 0 && held.st_ino == named.st_ino) break;
    ::close(file_);
    file_ = -1;
  }
}

FolderLock::~FolderLock() {
  ::unlink(path_.c_str());
  ::close(file_);
}

}  // namespace poslab
