// numpy's .npz: a zip archive of .npy files, stored or deflated (PKWARE's APPNOTE 6.3, sections 4.3 and 4.5.3).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/formats/mapped_file.h"
#include "poslab/formats/npy.h"

namespace poslab {

class NpzFile {
 public:
  // Throws std::invalid_argument "[read_npz] PATH: ..." for a path that cannot be read, what is no zip archive, a
  // directory of entries beyond the file's end, and encrypted entries. A PyTorch file, a zip too, is named as such.
  explicit NpzFile(const std::string& path);

  std::vector<std::string> names() const;  // without ".npy"
  // Also for entries whose bytes do not fit their directory or checksum, or are no .npy file.
  NpyArray<double> read(std::string_view name) const;

 private:
  struct Entry {
    std::string name;
    std::uint16_t method = 0;
    std::uint32_t checksum = 0;
    std::uint64_t stored = 0, size = 0, offset = 0;
  };
  void read_directory();
  std::uint64_t number(std::uint64_t at, int bytes) const;  // little-endian; throws beyond the file's end
  [[noreturn]] void fail(std::string_view what) const;

  MappedFile file_;
  std::vector<Entry> entries_;
};

}  // namespace poslab
