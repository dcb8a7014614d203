#include "poslab/formats/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace poslab {

MappedFile::MappedFile(const std::string& path, std::string_view reader) : path_(path) {
  const auto fail = [&](const std::string& what) {
    throw std::invalid_argument(fmt::format("[{}] {}: {}.", reader, path, what));
  };
  // O_NONBLOCK: opening a pipe must not wait for its writer; a regular file does not care.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    std::error_code ignored;
    const auto target = std::filesystem::read_symlink(path, ignored);
    if (error == ENOENT && !ignored) fail(fmt::format("is a symlink to {}, which does not exist", target.string()));
    fail(fmt::format("cannot be read: {}", std::strerror(error)));
  }
  struct stat status {};
  const char* what = nullptr;
  if (::fstat(fd, &status) != 0) {
    what = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    what = S_ISDIR(status.st_mode) ? "is a directory, not a file" : "is not a regular file";
  } else if (status.st_size == 0) {
    what = "is empty (0 bytes)";
  } else {
    size_ = static_cast<std::size_t>(status.st_size);
    void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapped == MAP_FAILED) {
      what = std::strerror(errno);
    } else {
      data_ = static_cast<const std::byte*>(mapped);
    }
  }
  ::close(fd);
  if (what) fail(what);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::string_view recognised_format(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // Before pickles: the length of a header may look like the start of one.
  if (text.size() > 8 && text[8] == '{' && text[6] == '\0' && text[7] == '\0') return "a safetensors file";
  constexpr std::string_view pickle =
      "a PyTorch pickle (a .bin or .pth file: it can run code when loaded and is not "
      "read; convert it to safetensors)";
  if (text.starts_with("PK\x03\x04")) return pickle;
  if (text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5 && text[2] != '\0') return pickle;
  if (text.starts_with("GGUF")) return "a GGUF file";
  if (text.starts_with("lmgg") || text.starts_with("tjgg") || text.starts_with("fmgg")) {
    return "an old GGML file (from before GGUF)";
  }
  if (text.starts_with("\x93NUMPY")) return "a .npy file";
  if (text.starts_with("\x89HDF")) return "an HDF5 file";
  if (text.starts_with("version https://git-lfs")) {
    return "a Git LFS pointer (the file itself was not fetched)";
  }
  if (text.starts_with("{")) return "JSON text";
  return {};
}

}  // namespace poslab
