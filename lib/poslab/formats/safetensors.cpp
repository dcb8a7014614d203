#include "poslab/formats/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "poslab/core/file_write.h"
#include "poslab/formats/json_file.h"

namespace poslab {
namespace {

using nlohmann::json;
static_assert(std::endian::native == std::endian::little, "tensors are copied as they stand in the file");

[[noreturn]] void fail(std::string_view path, const std::string& what) {
  throw std::invalid_argument(fmt::format("[read_safetensors] {}: {}.", path, what));
}

struct TypeWord {
  std::string_view word;
  std::int64_t bytes;
  std::optional<DType> dtype;
};
constexpr TypeWord type_words[] = {{"F64", 8, DType::f64}, {"F32", 4, DType::f32}, {"BF16", 2, DType::bf16},
                                   {"F16", 2, DType::f16}, {"I64", 8, {}},         {"U64", 8, {}},
                                   {"I32", 4, {}},         {"U32", 4, {}},         {"I16", 2, {}},
                                   {"U16", 2, {}},         {"I8", 1, {}},          {"U8", 1, {}},
                                   {"BOOL", 1, {}},        {"F8_E4M3", 1, {}},     {"F8_E5M2", 1, {}}};

struct Placed {
  SafetensorsTensor tensor;
  std::int64_t begin, end;
};

std::int64_t count(const json& value, std::string_view path, const std::string& name, const char* what) {
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0 ||
      (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX})) {
    fail(path, fmt::format("tensor {}: {} must be integers of 0 or more", name, what));
  }
  return value.get<std::int64_t>();
}

Placed place(std::string_view path, const std::string& name, const json& entry, std::int64_t data_size) {
  const auto wrong = [&](const std::string& what) { fail(path, fmt::format("tensor {}: {}", name, what)); };
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!entry.is_object() || !entry.contains(key)) wrong(fmt::format("has no {}", key));
  }
  if (entry.size() != 3) wrong("has more keys than dtype, shape and data_offsets");
  Placed placed{};
  SafetensorsTensor& t = placed.tensor;
  t.name = name;
  if (!entry["dtype"].is_string()) wrong("dtype must be text");
  t.dtype_word = entry["dtype"].get<std::string>();
  const auto* type = std::find_if(std::begin(type_words), std::end(type_words),
                                  [&](const TypeWord& known) { return known.word == t.dtype_word; });
  if (type == std::end(type_words)) wrong(fmt::format("dtype {} is not known", t.dtype_word.substr(0, 40)));
  t.dtype = type->dtype;
  if (!entry["shape"].is_array()) wrong("shape must be a list");
  std::int64_t bytes = type->bytes;
  t.size = 1;
  for (const json& length : entry["shape"]) {
    t.shape.push_back(count(length, path, name, "the numbers of its shape"));
    if (__builtin_mul_overflow(t.size, t.shape.back(), &t.size)) wrong("its shape overflows");
  }
  if (__builtin_mul_overflow(bytes, t.size, &bytes)) wrong("its shape overflows");
  const json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) wrong("data_offsets must be two integers");
  placed.begin = count(offsets[0], path, name, "data_offsets");
  placed.end = count(offsets[1], path, name, "data_offsets");
  if (placed.begin > placed.end) wrong(fmt::format("data_offsets {} .. {} run backwards", placed.begin, placed.end));
  if (placed.end - placed.begin != bytes) {
    wrong(fmt::format("its shape needs {} bytes but data_offsets give {}", bytes, placed.end - placed.begin));
  }
  if (placed.end > data_size) {
    wrong(fmt::format("its bytes end at {} but the file has {}: it is truncated", placed.end, data_size));
  }
  return placed;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(path, std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  const std::int64_t file_size = known ? status.st_size : 0;
  if (known && file_size >= 8)
    mapped_ = ::mmap(nullptr, static_cast<std::size_t>(file_size), PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  ::close(fd);
  if (!known) fail(path, "is no regular file");
  if (file_size < 8) fail(path, fmt::format("has {} bytes, too few for safetensors", file_size));
  if (mapped_ == MAP_FAILED) {
    mapped_ = nullptr;
    fail(path, std::strerror(error));
  }
  mapped_size_ = static_cast<std::size_t>(file_size);
  try {
    const auto* bytes = static_cast<const std::byte*>(mapped_);
    std::uint64_t header_size = 0;
    std::memcpy(&header_size, bytes, 8);
    if (header_size > static_cast<std::uint64_t>(std::min(file_size - 8, json_max_bytes))) {
      fail(path, fmt::format("a header of {} bytes does not fit in a file of {} (at most {}); it is truncated or not "
                             "safetensors",
                             header_size, file_size, json_max_bytes));
    }
    const std::string_view text(reinterpret_cast<const char*>(bytes) + 8, header_size);
    const json header = parse_json(text, path, 4);
    if (!header.is_object()) fail(path, "the header is no JSON object");
    const std::int64_t data_begin = 8 + static_cast<std::int64_t>(header_size);
    std::vector<Placed> placed;
    for (const auto& [name, entry] : header.items()) {
      if (name != "__metadata__") {
        placed.push_back(place(path, name, entry, file_size - data_begin));
        continue;
      }
      if (!entry.is_object()) fail(path, "__metadata__ must be an object");
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) fail(path, fmt::format("__metadata__.{} must be text", key));
        metadata_[key] = value.get<std::string>();
      }
    }
    std::sort(placed.begin(), placed.end(),
              [](const Placed& a, const Placed& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    std::int64_t end = 0;
    for (Placed& p : placed) {
      if (p.begin < end) fail(path, fmt::format("tensor {} overlaps the one before it", p.tensor.name));
      if (p.begin > end)
        fail(path, fmt::format("{} bytes before tensor {} belong to none", p.begin - end, p.tensor.name));
      end = p.end;
      p.tensor.bytes = {bytes + data_begin + p.begin, static_cast<std::size_t>(p.end - p.begin)};
      tensors_.push_back(std::move(p.tensor));
    }
    if (end != file_size - data_begin) {
      fail(path, fmt::format("{} bytes after the last tensor belong to none", file_size - data_begin - end));
    }
  } catch (...) {
    ::munmap(mapped_, mapped_size_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { ::munmap(mapped_, mapped_size_); }

const SafetensorsTensor* SafetensorsFile::find(const std::string& name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& t) { return t.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

template <class T>
void SafetensorsFile::read(const SafetensorsTensor& tensor, std::span<T> out) const {
  if (!tensor.dtype) {
    fail(path_, fmt::format("tensor {} is {}, not floating-point numbers", tensor.name, tensor.dtype_word));
  }
  const auto convert = [&]<class Stored>(Stored, auto&& widen) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      Stored stored;
      std::memcpy(&stored, tensor.bytes.data() + i * sizeof(Stored), sizeof stored);
      out[i] = static_cast<T>(widen(stored));
    }
  };
  switch (*tensor.dtype) {
    case DType::f64:
      return convert(double{}, [](double v) { return v; });
    case DType::f32:
      return convert(float{}, [](float v) { return v; });
    case DType::bf16:
      return convert(std::uint16_t{}, bf16_from_bits);
    case DType::f16:
      return convert(std::uint16_t{}, f16_from_bits);
  }
}

template void SafetensorsFile::read(const SafetensorsTensor&, std::span<float>) const;
template void SafetensorsFile::read(const SafetensorsTensor&, std::span<double>) const;

template <class T>
void write_safetensors(const std::string& path, std::span<const SafetensorsEntry<T>> entries,
                       const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t begin = 0;
  for (const auto& entry : entries) {
    const std::size_t end = begin + entry.values.size_bytes();
    header[entry.name] = {
        {"dtype", sizeof(T) == 4 ? "F32" : "F64"}, {"shape", entry.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts where numbers may be read in place
  const std::uint64_t size = text.size();
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(&size, 1)), std::as_bytes(std::span(text))};
  for (const auto& entry : entries) parts.push_back(std::as_bytes(entry.values));
  write_file(path, parts);
}

template void write_safetensors(const std::string&, std::span<const SafetensorsEntry<float>>,
                                const std::map<std::string, std::string>&);
template void write_safetensors(const std::string&, std::span<const SafetensorsEntry<double>>,
                                const std::map<std::string, std::string>&);

}  // namespace poslab
