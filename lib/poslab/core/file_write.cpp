#include "poslab/core/file_write.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace poslab {
namespace {

[[noreturn]] void fail(const std::string& path, int error) {
  throw std::runtime_error(fmt::format("cannot write {}: {}", path, std::strerror(error)));
}

// 0, or errno.
int write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), 1 << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

// Makes a rename in this folder last through a power cut; a file system that cannot is left alone.
void sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

// Renaming over a device, a pipe or the wrong kind of file would destroy it.
void check_target(const std::string& path, std::filesystem::file_type wanted, const char* kind) {
  const auto type = std::filesystem::status(path).type();
  if (type != wanted && type != std::filesystem::file_type::not_found) {
    throw std::runtime_error(fmt::format("cannot write {}: it is there and is no {}", path, kind));
  }
}

}  // namespace

void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  check_target(path, std::filesystem::file_type::regular, "regular file");
  const std::string partial = path + ".partial";
  const int fd = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) fail(path, errno);
  int error = 0;
  for (const auto& part : parts) {
    if (error == 0) error = write_all(fd, part);
  }
  if (error == 0 && ::fsync(fd) != 0) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(partial.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(partial.c_str());
    fail(path, error);
  }
  sync_folder_of(path);
}

void replace_folder(const std::string& fresh, const std::string& target) {
  check_target(target, std::filesystem::file_type::directory, "folder");
  if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    sync_folder_of(target);
    std::filesystem::remove_all(fresh);
    return;
  }
  const std::string previous = target + ".previous";
  if (errno != ENOENT && ::rename(target.c_str(), previous.c_str()) != 0 && errno != ENOENT) fail(target, errno);
  if (::rename(fresh.c_str(), target.c_str()) != 0) fail(target, errno);
  sync_folder_of(target);
  std::filesystem::remove_all(previous);
}

}  // namespace poslab
