// The safetensors format: an 8-byte little-endian length, a JSON header {name: {dtype, shape, data_offsets}}, then the
// tensors' bytes, little-endian and row by row (github.com/huggingface/safetensors, README "Format").
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "poslab/core/element_type.h"
#include "poslab/formats/mapped_file.h"

namespace poslab {

struct SafetensorsTensor {
  std::string name;
  std::string dtype_word;      // as the file spells it: "F32", "BF16", "I64", ...
  std::optional<DType> dtype;  // absent for types that are no floating-point numbers of ours
  std::vector<std::int64_t> shape;
  std::int64_t size = 0;  // elements
  std::span<const std::byte> bytes;
};

// A file, or the shards of a model, mapped into memory for as long as the object lives.
class SafetensorsFile {
 public:
  // `path`: a .safetensors file, an index of shards (NAME.safetensors.index.json) or a folder that holds
  // model.safetensors or model.safetensors.index.json. Checks every header before anything is read. Throws
  // std::invalid_argument "[read_safetensors] PATH: ..." naming the tensor for: a path that cannot be read, a PyTorch
  // pickle and other formats, a header longer than the file or 64 MiB, what is not JSON or has keys twice, unknown
  // dtypes, shapes that overflow or do not fit their bytes, bytes beyond the file's end (a truncated file), tensors
  // that overlap or leave bytes between them; and for shards that are missing, not plain file names, or disagree with
  // the index about which tensors they hold.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return path_; }  // of the file or index
  std::vector<std::string> files() const;            // of the file, or of each shard
  // In the order of their bytes, shard after shard.
  const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }
  const SafetensorsTensor* find(std::string_view name) const;  // null: there is none
  // Of the first shard.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // The tensor's values, f32, f64, bf16 or f16, each as the nearest T (float or double). Throws std::invalid_argument
  // for other types, naming the tensor, and when `out` has not size elements.
  template <class T>
  void read(const SafetensorsTensor& tensor, std::span<T> out) const;

 private:
  void read_header(const MappedFile& file);
  void read_index();

  std::string path_;
  std::vector<MappedFile> files_;
  std::vector<SafetensorsTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

// A tensor to write, its bytes as they shall stand in the file.
struct SafetensorsBytes {
  std::string name;
  std::string dtype_word;  // of shape and bytes, unchecked
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// Writes PATH.partial, syncs it and renames it, so that PATH is whole or as it was; tensors stand in the order given.
// transformers reads only files whose metadata says {"format": "pt"}. Throws std::runtime_error "cannot write PATH:
// <errno text>", after removing PATH.partial.
void write_safetensors(const std::string& path, std::span<const SafetensorsBytes> tensors,
                       const std::map<std::string, std::string>& metadata);

// T's own type is written: F32 or F64.
template <class T>
struct SafetensorsEntry {
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<const T> values;
};

template <class T>
void write_safetensors(const std::string& path, std::span<const SafetensorsEntry<T>> entries,
                       const std::map<std::string, std::string>& metadata);

}  // namespace poslab
