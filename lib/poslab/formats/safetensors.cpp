#include "poslab/formats/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "poslab/core/file_write.h"
#include "poslab/core/printable.h"
#include "poslab/formats/json_file.h"
#include "poslab/kernels/convert.h"

namespace poslab {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
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

// The readable types first, then those that only pass through.
std::string known_types() {
  std::string out;
  for (const TypeWord& type : type_words) out += fmt::format("{}{}", out.empty() ? "" : ", ", type.word);
  return out;
}

// Errors of the JSON reader, as this reader's.
json parse_header(std::string_view text, const std::string& path, int max_depth) {
  try {
    return parse_json(text, path, max_depth);
  } catch (const std::invalid_argument& e) {
    std::string_view what = e.what();
    const std::string start = fmt::format("[read_json] {}: ", path);
    if (what.starts_with(start)) what.remove_prefix(start.size());
    if (what.ends_with('.')) what.remove_suffix(1);
    fail(path, fmt::format("the header is damaged: {}", what));
  }
}

struct Placed {
  SafetensorsTensor tensor;
  std::int64_t begin, end;
};

std::int64_t count(const json& value, std::string_view path, const std::string& name, const char* what) {
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0 ||
      (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX})) {
    fail(path, fmt::format("tensor {}: {} must be integers of 0 or more", printable(name), what));
  }
  return value.get<std::int64_t>();
}

Placed place(std::string_view path, const std::string& name, const json& entry, std::int64_t data_size) {
  const auto wrong = [&](const std::string& what) { fail(path, fmt::format("tensor {}: {}", printable(name), what)); };
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
  if (type == std::end(type_words)) {
    wrong(fmt::format("dtype {} is not known; {} are", printable(t.dtype_word), known_types()));
  }
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
  constexpr std::string_view index_ending = ".index.json";
  if (fs::is_directory(path)) {
    const fs::path folder(path);
    const std::string single = (folder / "model.safetensors").string();
    if (std::error_code error; fs::exists(fs::symlink_status(single, error))) {
      path_ = single;
    } else if (const std::string index = single + std::string(index_ending); fs::exists(index)) {
      path_ = index;
    } else if (fs::exists(folder / "pytorch_model.bin") || fs::exists(folder / "pytorch_model.bin.index.json")) {
      fail(path,
           "holds its weights only as a PyTorch pickle (pytorch_model.bin), which can run code when loaded and "
           "is not read; convert it to safetensors");
    } else {
      fail(path, "holds no model.safetensors and no model.safetensors.index.json");
    }
  }
  if (path_.ends_with(index_ending)) {
    read_index();
  } else {
    read_header(files_.emplace_back(path_, "read_safetensors"));
  }
}

void SafetensorsFile::read_index() {
  const MappedFile file(path_, "read_safetensors");
  const auto bytes = file.bytes();
  const json index = parse_header({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path_, 4);
  const auto map = index.find("weight_map");
  if (!index.is_object() || map == index.end() || !map->is_object()) fail(path_, "has no object weight_map");
  std::map<std::string, std::string, std::less<>> shard_of;
  std::map<std::string, std::size_t> shards;  // and the number of tensors that the index places there
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string()) fail(path_, fmt::format("weight_map: the file of {} must be text", printable(name)));
    const std::string word = shard.get<std::string>();
    if (word.empty() || fs::path(word).filename() != word || word == "." || word == "..") {
      fail(path_, fmt::format("weight_map: '{}' is no plain file name", printable(word)));
    }
    shard_of[name] = word;
    ++shards[word];
  }
  for (const auto& [shard, count] : shards) {
    const std::size_t begin = tensors_.size();
    const MappedFile& part = files_.emplace_back((fs::path(path_).parent_path() / shard).string(), "read_safetensors");
    read_header(part);
    for (std::size_t i = begin; i < tensors_.size(); ++i) {
      const auto placed = shard_of.find(tensors_[i].name);
      if (placed == shard_of.end() || placed->second != shard) {
        fail(path_,
             fmt::format("weight_map places no tensor {} in {}, which holds one", printable(tensors_[i].name), shard));
      }
    }
    if (tensors_.size() - begin == count) continue;
    for (const auto& [name, file_name] : shard_of) {
      if (file_name == shard && !find(name)) {
        fail(path_, fmt::format("weight_map places tensor {} in {}, which has none", printable(name), shard));
      }
    }
  }
}

void SafetensorsFile::read_header(const MappedFile& file) {
  const std::string& path = file.path();
  const auto bytes = file.bytes();
  const std::int64_t file_size = static_cast<std::int64_t>(bytes.size());
  const std::string_view format = recognised_format(bytes);
  if (!format.empty() && !format.starts_with("a safetensors")) {
    fail(path, fmt::format("is not a safetensors file but {}", format));
  }
  if (file_size < 8) fail(path, fmt::format("has {} bytes, too few for safetensors", file_size));
  std::uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), 8);
  if (header_size > static_cast<std::uint64_t>(std::min(file_size - 8, json_max_bytes))) {
    fail(path, fmt::format("a header of {} bytes does not fit in a file of {} (at most {}); it is truncated or not "
                           "safetensors",
                           header_size, file_size, json_max_bytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, header_size);
  const json header = parse_header(text, path, 4);
  if (!header.is_object()) fail(path, "the header is no JSON object");
  const auto data = bytes.subspan(8 + static_cast<std::size_t>(header_size));
  const std::int64_t data_size = static_cast<std::int64_t>(data.size());
  std::vector<Placed> placed;
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") {
      placed.push_back(place(path, name, entry, data_size));
      continue;
    }
    if (!entry.is_object()) fail(path, "__metadata__ must be an object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) fail(path, fmt::format("__metadata__.{} must be text", printable(key)));
      if (files_.size() == 1) metadata_[key] = value.get<std::string>();
    }
  }
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::int64_t end = 0;
  for (Placed& p : placed) {
    const std::string name = printable(p.tensor.name);
    if (p.begin < end) fail(path, fmt::format("tensor {} overlaps the one before it", name));
    if (p.begin > end) fail(path, fmt::format("{} bytes before tensor {} belong to none", p.begin - end, name));
    end = p.end;
    p.tensor.bytes = data.subspan(static_cast<std::size_t>(p.begin), static_cast<std::size_t>(p.end - p.begin));
    if (!index_.emplace(p.tensor.name, tensors_.size()).second) {
      fail(path, fmt::format("tensor {} stands in another shard too", name));
    }
    tensors_.push_back(std::move(p.tensor));
  }
  if (end != data_size) fail(path, fmt::format("{} bytes after the last tensor belong to none", data_size - end));
}

std::vector<std::string> SafetensorsFile::files() const {
  std::vector<std::string> paths;
  for (const MappedFile& file : files_) paths.push_back(file.path());
  return paths;
}

const SafetensorsTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

template <class T>
void SafetensorsFile::read(const SafetensorsTensor& tensor, std::span<T> out) const {
  if (!tensor.dtype) {
    fail(path_, fmt::format("tensor {} is {}, not floating-point numbers", printable(tensor.name), tensor.dtype_word));
  }
  if (static_cast<std::int64_t>(out.size()) != tensor.size) {
    fail(path_, fmt::format("tensor {} has {} numbers, not {}", printable(tensor.name), tensor.size, out.size()));
  }
  // Through a small block, since bytes in the file may stand at any address.
  constexpr std::size_t block = 4096;
  const auto convert = [&]<class Stored>(Stored, auto&& widened) {
    std::array<Stored, block> stored;
    for (std::size_t i = 0; i < out.size(); i += block) {
      const auto to = out.subspan(i, std::min(block, out.size() - i));
      std::memcpy(stored.data(), tensor.bytes.data() + i * sizeof(Stored), to.size() * sizeof(Stored));
      const auto* from = widened(stored.data(), to.size());
      for (std::size_t j = 0; j < to.size(); ++j) to[j] = static_cast<T>(from[j]);
    }
  };
  std::array<float, block> singles;
  const auto widen_block = [&](Storage type) {
    return [&singles, type](const std::uint16_t* from, std::size_t count) {
      widen(from, type, std::span(singles).first(count));
      return singles.data();
    };
  };
  switch (*tensor.dtype) {
    case DType::f64:
      return convert(double{}, [](const double* v, std::size_t) { return v; });
    case DType::f32:
      return convert(float{}, [](const float* v, std::size_t) { return v; });
    case DType::bf16:
      return convert(std::uint16_t{}, widen_block(Storage::bf16));
    case DType::f16:
      return convert(std::uint16_t{}, widen_block(Storage::f16));
  }
}

template void SafetensorsFile::read(const SafetensorsTensor&, std::span<float>) const;
template void SafetensorsFile::read(const SafetensorsTensor&, std::span<double>) const;

void write_safetensors(const std::string& path, std::span<const SafetensorsBytes> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += fmt::format("\"__metadata__\":{}", json(metadata).dump());
  std::size_t begin = 0;
  for (const auto& tensor : tensors) {
    const std::size_t end = begin + tensor.bytes.size();
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", text.size() > 1 ? "," : "",
                        json(tensor.name).dump(), tensor.dtype_word, fmt::join(tensor.shape, ","), begin, end);
    begin = end;
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts where numbers may be read in place
  const std::uint64_t size = text.size();
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(&size, 1)), std::as_bytes(std::span(text))};
  for (const auto& tensor : tensors) parts.push_back(tensor.bytes);
  write_file(path, parts);
}

template <class T>
void write_safetensors(const std::string& path, std::span<const SafetensorsEntry<T>> entries,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsBytes> tensors;
  for (const auto& entry : entries) {
    tensors.push_back({entry.name, sizeof(T) == 4 ? "F32" : "F64", entry.shape, std::as_bytes(entry.values)});
  }
  write_safetensors(path, tensors, metadata);
}

template void write_safetensors(const std::string&, std::span<const SafetensorsEntry<float>>,
                                const std::map<std::string, std::string>&);
template void write_safetensors(const std::string&, std::span<const SafetensorsEntry<double>>,
                                const std::map<std::string, std::string>&);

}  // namespace poslab
