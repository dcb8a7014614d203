// The bytes of a fuzzer as a file that needs no disk.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

template <class Read>
int fuzz_file(const std::uint8_t* data, std::size_t size, Read read) {
  const int fd = ::memfd_create("fuzz", 0);
  if (fd < 0 || ::write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    read("/proc/self/fd/" + std::to_string(fd));
  } catch (const std::invalid_argument&) {
    // How a reader refuses.
  }
  ::close(fd);
  return 0;
}
