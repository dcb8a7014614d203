// A file's bytes in memory, mapped rather than read: a model of several GB opens at once.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace poslab {

class MappedFile {
 public:
  // `reader` begins the errors: std::invalid_argument "[reader] PATH: ..." for a path that cannot be opened (a symlink
  // to nowhere is named as such), a directory, what is no regular file, and an empty file. The file must not shrink
  // while it is mapped.
  MappedFile(const std::string& path, std::string_view reader);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// What a file that starts so is, for errors: "a PyTorch pickle (...)", "a GGUF file", ...; empty when not recognised.
std::string_view recognised_format(std::span<const std::byte> bytes);

}  // namespace poslab
