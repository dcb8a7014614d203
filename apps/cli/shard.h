// A share of a sweep's points.
#pragma once

#include <cstdint>
#include <string_view>

namespace poslab::cli {

// "i/n": point p (from 0) belongs to shard p mod n + 1.
struct Shard {
  std::int64_t index = 1, count = 1;
  static Shard parse(std::string_view text);
  bool owns(std::int64_t point) const { return point % count + 1 == index; }
};

}  // namespace poslab::cli
