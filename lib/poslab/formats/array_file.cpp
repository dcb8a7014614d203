#include "poslab/formats/array_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "poslab/core/printable.h"
#include "poslab/formats/npz.h"
#include "poslab/formats/safetensors.h"

namespace poslab {
namespace {

// FILE and NAME of FILE<ending>:NAME; absent where the place has another ending.
std::optional<std::pair<std::string, std::string>> split(const std::string& place, std::string_view ending) {
  if (place.ends_with(ending)) return std::pair{place, std::string()};
  const std::size_t at = place.rfind(std::string(ending) + ":");
  if (at == std::string::npos) return std::nullopt;
  const std::size_t colon = at + ending.size();
  return std::pair{place.substr(0, colon), place.substr(colon + 1)};
}

std::string only(const std::string& path, const std::vector<std::string>& names) {
  if (names.size() == 1) return names.front();
  throw std::invalid_argument(fmt::format("[read_array] {} holds {} arrays; say which, as {}:NAME: {}.", path,
                                          names.size(), path, printable(fmt::format("{}", fmt::join(names, ", ")))));
}

template <class Stored>
std::vector<double> integers(const SafetensorsTensor& tensor) {
  std::vector<double> out(static_cast<std::size_t>(tensor.size));
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored value;
    std::memcpy(&value, tensor.bytes.data() + i * sizeof value, sizeof value);
    out[i] = static_cast<double>(value);
  }
  return out;
}

NpyArray<double> read_tensor(const std::string& path, std::string name) {
  const SafetensorsFile file(path);
  std::vector<std::string> names;
  for (const SafetensorsTensor& tensor : file.tensors()) names.push_back(tensor.name);
  if (name.empty()) name = only(path, names);
  const SafetensorsTensor* tensor = file.find(name);
  if (!tensor) {
    throw std::invalid_argument(fmt::format("[read_array] {} has no tensor '{}' but {}.", path, printable(name),
                                            printable(fmt::format("{}", fmt::join(names, ", ")))));
  }
  NpyArray<double> array{tensor->shape, {}};
  if (tensor->dtype_word == "I64") {
    array.values = integers<std::int64_t>(*tensor);
  } else if (tensor->dtype_word == "I32") {
    array.values = integers<std::int32_t>(*tensor);
  } else {
    array.values.resize(static_cast<std::size_t>(tensor->size));
    file.read<double>(*tensor, array.values);
  }
  return array;
}

}  // namespace

NpyArray<double> read_array(const std::string& place) {
  for (std::string_view ending : {".pt", ".pth", ".bin"}) {
    if (!split(place, ending)) continue;
    throw std::invalid_argument(fmt::format(
        "[read_array] {} is a PyTorch file by its name; scripts/dump_convert.py makes an .npz file of it.", place));
  }
  if (auto zip = split(place, ".npz")) {
    const NpzFile file(zip->first);
    return file.read(zip->second.empty() ? only(zip->first, file.names()) : zip->second);
  }
  if (auto tensors = split(place, ".safetensors")) return read_tensor(tensors->first, std::move(tensors->second));
  return read_npy(place);
}

}  // namespace poslab
