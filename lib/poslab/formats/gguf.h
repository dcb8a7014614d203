// GGUF model files, versions 2 and 3, little-endian: magic, counts, metadata, tensor list, aligned data
// (docs/gguf.md of ggml-org/ggml).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "poslab/formats/mapped_file.h"
#include "poslab/formats/quantised.h"

namespace poslab {

// Numbered as in the file.
enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
std::string_view gguf_type_text(GgufType type);

// The elements stay in the file; GgufFile::strings and numbers read them.
struct GgufArray {
  GgufType element = GgufType::u8;
  std::int64_t size = 0;
  std::span<const std::byte> bytes;
};

// Strings are any bytes, not always UTF-8.
struct GgufValue {
  GgufType type = GgufType::u8;
  std::variant<std::int64_t, std::uint64_t, double, bool, std::string_view, GgufArray> value;
};

struct GgufTensor {
  std::string name;
  GgmlTypeInfo type;
  std::vector<std::int64_t> shape;  // as in numpy: the last runs fastest (GGUF stores the reverse)
  std::int64_t size = 0;            // elements
  std::span<const std::byte> bytes;

  std::int64_t row_size() const { return shape.empty() ? 1 : shape.back(); }
};

class GgufCursor;

// A mapped file, checked as a whole before anything of its size is allocated.
class GgufFile {
 public:
  // Throws std::invalid_argument "[read_gguf] PATH: ..." for a path that cannot be read, wrong magic (what the file is
  // instead, where recognised), another version or byte order, counts, strings and arrays that the file is too short
  // for (truncated), unknown value types, keys or tensors twice, arrays nested deeper than 4, bad alignment, tensors of
  // unknown types, more than 4 dimensions, sizes that overflow, rows that are no whole number of blocks, and bytes past
  // the end of the file, unaligned, or shared by two tensors.
  explicit GgufFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  std::uint32_t version() const { return version_; }
  const std::vector<std::string_view>& keys() const { return keys_; }  // in the file's order
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in the file's order

  const GgufValue* find_value(std::string_view key) const;     // nullptr: absent
  const GgufTensor* find_tensor(std::string_view name) const;  // nullptr: absent
  const GgufTensor& tensor(std::string_view name) const;       // throws, naming the path

  // Metadata by key, absent where the file has no such key. Throw std::invalid_argument naming key and type where the
  // value is of another kind; integers serve as numbers.
  std::optional<std::string_view> text(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  // Empty where absent.
  std::vector<std::string_view> strings(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;

  // All numbers of a tensor, or those of some rows (all dimensions but the last, counted through): out has size, or
  // whole rows from first_row on.
  void read(const GgufTensor& tensor, std::span<float> out) const;
  void read_rows(const GgufTensor& tensor, std::int64_t first_row, std::span<float> out) const;

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void read_values(GgufCursor& cursor, std::int64_t count);
  void read_tensors(GgufCursor& cursor, std::int64_t count);
  void check_overlaps() const;

  MappedFile file_;
  std::uint32_t version_ = 0;
  std::vector<std::string_view> keys_;
  std::map<std::string_view, GgufValue, std::less<>> values_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> tensor_index_;
};

}  // namespace poslab
