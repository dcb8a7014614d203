#include "cli/shard.h"

#include <fmt/format.h>

#include "cli/parse_value.h"
#include "poslab/core/numbers.h"

namespace poslab::cli {

Shard Shard::parse(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) throw UsageError(fmt::format("--shard '{}': write it i/n", text));
  const Shard shard{parse_integer(text.substr(0, slash), "--shard"), parse_integer(text.substr(slash + 1), "--shard")};
  if (shard.count < 1 || shard.index < 1 || shard.index > shard.count) {
    throw UsageError(fmt::format("--shard {}: i runs from 1 to n", text));
  }
  return shard;
}

}  // namespace poslab::cli
