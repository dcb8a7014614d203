#include "poslab/formats/npz.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "poslab/core/printable.h"

namespace poslab {
namespace {

constexpr std::uint32_t end_mark = 0x06054b50, entry_mark = 0x02014b50, local_mark = 0x04034b50,
                        end64_mark = 0x06064b50, end64_locator_mark = 0x07064b50;
constexpr std::uint64_t in_extra_field = 0xffffffff;
constexpr std::uint64_t end_size = 22, entry_size = 46, local_size = 30;

std::vector<std::byte> inflate_all(std::span<const std::byte> stored, std::size_t size) {
  // deflate shrinks at most about 1032 to 1: a larger promise is no reason to allocate.
  if (size / 1040 > stored.size() + 1) return {};
  std::vector<std::byte> out(size);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return {};
  std::size_t read = 0, written = 0;
  int status = Z_OK;
  constexpr std::size_t most = std::numeric_limits<uInt>::max() / 2;
  while (status == Z_OK) {
    // zlib's own counters are 32 bits wide.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(stored.data() + read));
    stream.avail_in = static_cast<uInt>(std::min(most, stored.size() - read));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + written);
    stream.avail_out = static_cast<uInt>(std::min(most, out.size() - written));
    const uInt in = stream.avail_in, space = stream.avail_out;
    status = inflate(&stream, Z_NO_FLUSH);
    read += in - stream.avail_in;
    written += space - stream.avail_out;
    if (in == stream.avail_in && space == stream.avail_out && status == Z_OK) break;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || written != size) out.clear();
  return out;
}

std::uint32_t checksum_of(std::span<const std::byte> bytes) {
  uLong sum = crc32(0, nullptr, 0);
  constexpr std::size_t most = 1U << 30;
  for (std::size_t at = 0; at < bytes.size(); at += most) {
    const auto part = bytes.subspan(at, std::min(most, bytes.size() - at));
    sum = crc32(sum, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()));
  }
  return static_cast<std::uint32_t>(sum);
}

}  // namespace

NpzFile::NpzFile(const std::string& path) : file_(path, "read_npz") { read_directory(); }

void NpzFile::fail(std::string_view what) const {
  throw std::invalid_argument(fmt::format("[read_npz] {}: {}.", file_.path(), what));
}

std::uint64_t NpzFile::number(std::uint64_t at, int bytes) const {
  const std::uint64_t size = file_.bytes().size();
  if (at > size || size - at < static_cast<std::uint64_t>(bytes)) fail("is truncated");
  std::uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) {
    value |= std::to_integer<std::uint64_t>(file_.bytes()[at + static_cast<std::uint64_t>(i)]) << (8 * i);
  }
  return value;
}

void NpzFile::read_directory() {
  const std::uint64_t size = file_.bytes().size();
  if (size < 4 || (number(0, 4) != local_mark && number(0, 4) != end_mark)) {
    fail("is no .npz file, which is a zip archive");
  }
  // The end of the directory stands at the end, before a comment of up to 65535 bytes.
  std::uint64_t end = size < end_size ? 0 : size - end_size + 1;
  const std::uint64_t lowest = size > end_size + 65535 ? size - end_size - 65535 : 0;
  bool found = false;
  while (end > lowest && !found) found = number(--end, 4) == end_mark;
  if (!found) fail("is truncated: its directory of entries is missing");
  std::uint64_t count = number(end + 10, 2), at = number(end + 16, 4);
  if (end >= 20 && number(end - 20, 4) == end64_locator_mark) {
    const std::uint64_t wide = number(end - 12, 8);
    if (number(wide, 4) != end64_mark) fail("has a damaged directory of entries");
    count = number(wide + 32, 8);
    at = number(wide + 48, 8);
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (number(at, 4) != entry_mark) fail("has a damaged directory of entries");
    Entry entry;
    if (number(at + 8, 2) & 1) fail("is encrypted");
    entry.method = static_cast<std::uint16_t>(number(at + 10, 2));
    entry.checksum = static_cast<std::uint32_t>(number(at + 16, 4));
    entry.stored = number(at + 20, 4);
    entry.size = number(at + 24, 4);
    entry.offset = number(at + 42, 4);
    const std::uint64_t name = number(at + 28, 2), extra = number(at + 30, 2), comment = number(at + 32, 2);
    number(at + entry_size + name + extra, 0);  // for its check
    entry.name.assign(reinterpret_cast<const char*>(file_.bytes().data() + at + entry_size), name);
    // Field 1 of the extra fields: those of the sizes and the offset that did not fit, in this order.
    for (std::uint64_t field = at + entry_size + name; field + 4 <= at + entry_size + name + extra;) {
      const std::uint64_t length = number(field + 2, 2);
      std::uint64_t value = field + 4;
      if (number(field, 2) == 1) {
        for (std::uint64_t* wide : {&entry.size, &entry.stored, &entry.offset}) {
          if (*wide != in_extra_field) continue;
          *wide = number(value, 8);
          value += 8;
        }
      }
      field += 4 + length;
    }
    if (entry.name.ends_with("/data.pkl") || entry.name == "data.pkl") {
      fail("is a PyTorch file; scripts/dump_convert.py makes an .npz file of it");
    }
    if (entry.name.ends_with(".npy")) entry.name.resize(entry.name.size() - 4);
    entries_.push_back(std::move(entry));
    at += entry_size + name + extra + comment;
  }
}

std::vector<std::string> NpzFile::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

NpyArray<double> NpzFile::read(std::string_view name) const {
  const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
  if (entry == entries_.end()) {
    fail(fmt::format("has no array '{}' but {}", printable(name),
                     printable(fmt::format("{}", fmt::join(names(), ", ")))));
  }
  const std::uint64_t at = entry->offset, size = file_.bytes().size();
  if (number(at, 4) != local_mark) fail("has a damaged directory of entries");
  const std::uint64_t begin = at + local_size + number(at + 26, 2) + number(at + 28, 2);
  if (begin > size || size - begin < entry->stored) fail("is truncated");
  const std::span<const std::byte> stored = file_.bytes().subspan(begin, entry->stored);
  const std::string what = fmt::format("{}:{}", file_.path(), printable(name));
  constexpr int as_is = 0, deflated = 8;
  std::vector<std::byte> inflated;
  if (entry->method == deflated) {
    inflated = inflate_all(stored, entry->size);
  } else if (entry->method != as_is) {
    fail(fmt::format("packs '{}' by method {}; stored and deflated can be read", printable(name), entry->method));
  }
  const std::span<const std::byte> bytes = entry->method == as_is ? stored : std::span<const std::byte>(inflated);
  if (bytes.size() != entry->size || checksum_of(bytes) != entry->checksum) {
    fail(fmt::format("has damaged data in '{}'", printable(name)));
  }
  return read_npy_bytes(what, bytes);
}

}  // namespace poslab
