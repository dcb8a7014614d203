// The hash FNV-1a in 64 bits (Fowler, Noll, Vo): names files by what they were made with, and tells texts apart. It is
// written into files, so it may not change.
#pragma once

#include <cstdint>

namespace poslab {

class Fnv1a {
 public:
  // One step; of a text a byte at a time, of tokens a whole number.
  void add(std::uint64_t value) { hash_ = (hash_ ^ value) * 0x100000001b3; }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace poslab
