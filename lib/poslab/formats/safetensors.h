// The safetensors format: an 8-byte little-endian length, a JSON header {name: {dtype, shape, data_offsets}}, then the
// tensors' bytes, little-endian and row by row (github.com/huggingface/safetensors, README "Format").
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "poslab/core/element_type.h"

namespace poslab {

struct SafetensorsTensor {
  std::string name;
  std::string dtype_word;      // as the file spells it: "F32", "BF16", "I64", ...
  std::optional<DType> dtype;  // absent for types that are no floating-point numbers of ours
  std::vector<std::int64_t> shape;
  std::int64_t size = 0;  // elements
  std::span<const std::byte> bytes;
};

// A file mapped into memory for as long as the object lives.
class SafetensorsFile {
 public:
  // Checks the whole header before anything is read. Throws std::invalid_argument "[read_safetensors] PATH: ..." naming
  // the tensor for: a path that cannot be read, a header longer than the file or 64 MiB, what is not JSON or has keys
  // twice, unknown dtypes, shapes that overflow or do not fit their bytes, bytes beyond the file's end (a truncated
  // file), and tensors that overlap or leave bytes between them.
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }  // in the order of their bytes
  const SafetensorsTensor* find(const std::string& name) const;               // null: there is none
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // The tensor's values, f32, f64, bf16 or f16, each as the nearest T (float or double). `out` has size elements.
  // Throws std::invalid_argument for other types, naming the tensor.
  template <class T>
  void read(const SafetensorsTensor& tensor, std::span<T> out) const;

 private:
  std::string path_;
  void* mapped_ = nullptr;
  std::size_t mapped_size_ = 0;
  std::vector<SafetensorsTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

// T's own type is written: F32 or F64.
template <class T>
struct SafetensorsEntry {
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<const T> values;
};

// Writes PATH.partial, syncs it and renames it, so that PATH is whole or as it was. Throws std::runtime_error "cannot
// write PATH: <errno text>", after removing PATH.partial.
template <class T>
void write_safetensors(const std::string& path, std::span<const SafetensorsEntry<T>> entries,
                       const std::map<std::string, std::string>& metadata);

}  // namespace poslab
