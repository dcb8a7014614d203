#include "poslab/formats/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "poslab/core/printable.h"

namespace poslab {
namespace {

static_assert(std::endian::native == std::endian::little, "values are read as they stand in the file");

constexpr std::uint32_t max_dimensions = 4;
constexpr int max_array_depth = 4;
constexpr std::int64_t default_alignment = 32;

constexpr std::string_view type_names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                           "bool", "string", "array", "u64", "i64", "f64"};

// Bytes of one value in the file; 0: its length stands in front of it.
std::size_t fixed_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    case GgufType::string:
    case GgufType::array:
      return 0;
  }
  return 0;
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

GgufValue scalar(GgufType type, const std::byte* at) {
  switch (type) {
    case GgufType::u8:
      return {type, std::uint64_t{load<std::uint8_t>(at)}};
    case GgufType::i8:
      return {type, std::int64_t{load<std::int8_t>(at)}};
    case GgufType::u16:
      return {type, std::uint64_t{load<std::uint16_t>(at)}};
    case GgufType::i16:
      return {type, std::int64_t{load<std::int16_t>(at)}};
    case GgufType::u32:
      return {type, std::uint64_t{load<std::uint32_t>(at)}};
    case GgufType::i32:
      return {type, std::int64_t{load<std::int32_t>(at)}};
    case GgufType::u64:
      return {type, load<std::uint64_t>(at)};
    case GgufType::i64:
      return {type, load<std::int64_t>(at)};
    case GgufType::f32:
      return {type, double{load<float>(at)}};
    case GgufType::f64:
      return {type, load<double>(at)};
    default:
      return {type, load<std::uint8_t>(at) != 0};
  }
}

std::optional<double> as_number(const GgufValue& value) {
  if (const auto* v = std::get_if<std::int64_t>(&value.value)) return static_cast<double>(*v);
  if (const auto* v = std::get_if<std::uint64_t>(&value.value)) return static_cast<double>(*v);
  if (const auto* v = std::get_if<double>(&value.value)) return *v;
  return std::nullopt;
}

}  // namespace

// Walks the file from its start and never past its end.
class GgufCursor {
 public:
  GgufCursor(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(&path) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(fmt::format("[read_gguf] {}: {}.", *path_, what));
  }

  std::size_t position() const { return position_; }
  std::size_t left() const { return bytes_.size() - position_; }

  std::span<const std::byte> take(std::uint64_t count, std::string_view what) {
    if (count > left()) {
      fail(fmt::format("is truncated: {} needs {} bytes from byte {} on but the file has {}", what, count, position_,
                       bytes_.size()));
    }
    const auto taken = bytes_.subspan(position_, static_cast<std::size_t>(count));
    position_ += static_cast<std::size_t>(count);
    return taken;
  }

  template <class T>
  T next(std::string_view what) {
    return load<T>(take(sizeof(T), what).data());
  }

  std::string_view string(std::string_view what) {
    const auto bytes = take(next<std::uint64_t>(what), what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  GgufType type(std::string_view what) {
    const auto number = next<std::uint32_t>(what);
    if (number >= std::size(type_names)) fail(fmt::format("{} has the unknown value type {}", what, number));
    return static_cast<GgufType>(number);
  }

  GgufValue value(GgufType type, std::string_view what, int depth = 0) {
    if (type == GgufType::string) return {type, string(what)};
    if (type == GgufType::array) return {type, array(what, depth)};
    return scalar(type, take(fixed_bytes(type), what).data());
  }

 private:
  GgufArray array(std::string_view what, int depth) {
    if (depth >= max_array_depth) fail(fmt::format("{} holds arrays nested deeper than {}", what, max_array_depth));
    GgufArray out;
    out.element = type(what);
    const auto size = next<std::uint64_t>(what);
    const std::size_t fixed = fixed_bytes(out.element);
    const std::size_t least = fixed ? fixed : out.element == GgufType::string ? 8 : 12;
    if (size > left() / least) {
      fail(fmt::format("is truncated: {} has {} elements, more than the {} bytes left can hold", what, size, left()));
    }
    out.size = static_cast<std::int64_t>(size);
    const std::size_t begin = position_;
    if (fixed) {
      take(size * fixed, what);
    } else {
      for (std::uint64_t i = 0; i < size; ++i) value(out.element, what, depth + 1);
    }
    out.bytes = bytes_.subspan(begin, position_ - begin);
    return out;
  }

  std::span<const std::byte> bytes_;
  const std::string* path_;
  std::size_t position_ = 0;
};

std::string_view gguf_type_text(GgufType type) { return type_names[static_cast<std::size_t>(type)]; }

void GgufFile::fail(const std::string& what) const {
  throw std::invalid_argument(fmt::format("[read_gguf] {}: {}.", path(), what));
}

GgufFile::GgufFile(const std::string& path) : file_(path, "read_gguf") {
  const auto bytes = file_.bytes();
  if (bytes.size() < 4 || std::memcmp(bytes.data(), "GGUF", 4) != 0) {
    const std::string_view format = recognised_format(bytes);
    fail(format.empty() ? "is not a GGUF file (it does not start with GGUF)"
                        : fmt::format("is not a GGUF file but {}", format));
  }
  GgufCursor cursor(bytes, path);
  cursor.take(4, "the magic");
  version_ = cursor.next<std::uint32_t>("the version");
  if ((version_ & 0xffff) == 0 && version_ != 0) fail("is big-endian; only little-endian GGUF is read");
  if (version_ < 2 || version_ > 3) fail(fmt::format("has GGUF version {}; 2 and 3 are read", version_));
  const auto n_tensors = cursor.next<std::uint64_t>("the number of tensors");
  const auto n_values = cursor.next<std::uint64_t>("the number of metadata values");
  // The least that a value (key length, key, type, one byte) and a tensor (name length, dimensions, type, offset) take.
  if (n_values > cursor.left() / 13 || n_tensors > cursor.left() / 24) {
    fail(fmt::format("is truncated or damaged: {} metadata values and {} tensors do not fit in {} bytes", n_values,
                     n_tensors, bytes.size()));
  }
  read_values(cursor, static_cast<std::int64_t>(n_values));
  read_tensors(cursor, static_cast<std::int64_t>(n_tensors));
}

void GgufFile::read_values(GgufCursor& cursor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string_view key = cursor.string(fmt::format("metadata key {}", i));
    const std::string what = fmt::format("metadata {}", printable(key));
    const GgufType type = cursor.type(what);
    if (!values_.emplace(key, cursor.value(type, what)).second) fail(fmt::format("{} stands there twice", what));
    keys_.push_back(key);
  }
}

void GgufFile::read_tensors(GgufCursor& cursor, std::int64_t count) {
  const std::int64_t alignment = integer("general.alignment").value_or(default_alignment);
  if (alignment < 8 || alignment > (1 << 30) || !std::has_single_bit(static_cast<std::uint64_t>(alignment))) {
    fail(fmt::format("general.alignment must be a power of two of 8 or more but is {}", alignment));
  }
  struct Place {
    std::uint64_t offset, size;
  };
  std::vector<Place> places;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string_view name = cursor.string(fmt::format("the name of tensor {}", i));
    const std::string what = fmt::format("tensor {}", printable(name));
    GgufTensor tensor;
    tensor.name = name;
    if (!tensor_index_.emplace(tensor.name, tensors_.size()).second) fail(fmt::format("{} stands there twice", what));
    const auto dimensions = cursor.next<std::uint32_t>(what);
    if (dimensions > max_dimensions) {
      fail(fmt::format("{} has {} dimensions; at most {} are read", what, dimensions, max_dimensions));
    }
    tensor.size = 1;
    for (std::uint32_t d = 0; d < dimensions; ++d) {
      const auto length = cursor.next<std::uint64_t>(what);
      if (length > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
          __builtin_mul_overflow(tensor.size, static_cast<std::int64_t>(length), &tensor.size)) {
        fail(fmt::format("the size of {} overflows at dimension {} of length {}", what, d, length));
      }
      tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(length));
    }
    const auto number = cursor.next<std::uint32_t>(what);
    const GgmlTypeInfo* type = find_ggml_type(number);
    if (!type) {
      fail(fmt::format("{} has type {}; {} are read", what, ggml_type_text(number), readable_ggml_types()));
    }
    tensor.type = *type;
    if (tensor.row_size() % type->block_size != 0) {
      fail(fmt::format("{} has rows of {} numbers, no multiple of {}'s block of {}", what, tensor.row_size(),
                       type->word, type->block_size));
    }
    const std::int64_t blocks = tensor.size / type->block_size;
    std::int64_t size = 0;
    if (__builtin_mul_overflow(blocks, type->block_bytes, &size)) fail(fmt::format("the size of {} overflows", what));
    const auto offset = cursor.next<std::uint64_t>(what);
    if (offset % static_cast<std::uint64_t>(alignment) != 0) {
      fail(fmt::format("{} starts at {}, no multiple of the alignment {}", what, offset, alignment));
    }
    places.push_back({offset, static_cast<std::uint64_t>(size)});
    tensors_.push_back(std::move(tensor));
  }

  const std::size_t step = static_cast<std::size_t>(alignment);
  const std::size_t begin = std::min((cursor.position() + step - 1) / step * step, file_.bytes().size());
  const auto data = file_.bytes().subspan(begin);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto [offset, size] = places[i];
    if (offset > data.size() || size > data.size() - offset) {
      fail(fmt::format("is truncated: tensor {} needs {} bytes from byte {} of the data on but there are {}",
                       printable(tensors_[i].name), size, offset, data.size()));
    }
    tensors_[i].bytes = data.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
  }
  check_overlaps();
}

void GgufFile::check_overlaps() const {
  std::vector<const GgufTensor*> sorted;
  for (const GgufTensor& tensor : tensors_) {
    if (!tensor.bytes.empty()) sorted.push_back(&tensor);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const GgufTensor* a, const GgufTensor* b) { return a->bytes.data() < b->bytes.data(); });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i - 1]->bytes.data() + sorted[i - 1]->bytes.size() > sorted[i]->bytes.data()) {
      fail(fmt::format("tensors {} and {} overlap", printable(sorted[i - 1]->name), printable(sorted[i]->name)));
    }
  }
}

const GgufValue* GgufFile::find_value(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

const GgufTensor& GgufFile::tensor(std::string_view name) const {
  const GgufTensor* found = find_tensor(name);
  if (!found) fail(fmt::format("has no tensor {}", name));
  return *found;
}

std::optional<std::string_view> GgufFile::text(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (!value) return std::nullopt;
  if (const auto* v = std::get_if<std::string_view>(&value->value)) return *v;
  fail(fmt::format("metadata {} must be a string but is {}", key, gguf_type_text(value->type)));
}

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (!value) return std::nullopt;
  if (const auto* v = std::get_if<std::int64_t>(&value->value)) return *v;
  if (const auto* v = std::get_if<std::uint64_t>(&value->value)) {
    if (*v > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail(fmt::format("metadata {} is {}, too large", key, *v));
    }
    return static_cast<std::int64_t>(*v);
  }
  fail(fmt::format("metadata {} must be an integer but is {}", key, gguf_type_text(value->type)));
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (!value) return std::nullopt;
  if (const auto v = as_number(*value)) return v;
  fail(fmt::format("metadata {} must be a number but is {}", key, gguf_type_text(value->type)));
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (!value) return std::nullopt;
  if (const auto* v = std::get_if<bool>(&value->value)) return *v;
  fail(fmt::format("metadata {} must be a bool but is {}", key, gguf_type_text(value->type)));
}

std::vector<std::string_view> GgufFile::strings(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (!value) return {};
  const auto* array = std::get_if<GgufArray>(&value->value);
  if (!array || array->element != GgufType::string) {
    fail(fmt::format("metadata {} must be an array of strings", key));
  }
  std::vector<std::string_view> out(static_cast<std::size_t>(array->size));
  GgufCursor cursor(array->bytes, path());
  for (std::string_view& text : out) text = cursor.string(key);
  return out;
}

std::vector<double> GgufFile::numbers(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (!value) return {};
  const auto* array = std::get_if<GgufArray>(&value->value);
  if (!array || fixed_bytes(array->element) == 0 || array->element == GgufType::boolean) {
    fail(fmt::format("metadata {} must be an array of numbers", key));
  }
  std::vector<double> out(static_cast<std::size_t>(array->size));
  const std::size_t step = fixed_bytes(array->element);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = *as_number(scalar(array->element, array->bytes.data() + i * step));
  }
  return out;
}

void GgufFile::read(const GgufTensor& tensor, std::span<float> out) const { read_rows(tensor, 0, out); }

void GgufFile::read_rows(const GgufTensor& tensor, std::int64_t first_row, std::span<float> out) const {
  const std::int64_t row = tensor.row_size();
  const std::int64_t count = static_cast<std::int64_t>(out.size());
  const std::int64_t rows = row > 0 ? tensor.size / row : 0;
  if (count == 0) return;
  if (row == 0 || count % row != 0 || first_row < 0 || first_row > rows || count / row > rows - first_row) {
    fail(fmt::format("tensor {} has {} rows of {}; {} numbers from row {} on are not there", printable(tensor.name),
                     rows, row, count, first_row));
  }
  const std::int64_t row_bytes = row / tensor.type.block_size * tensor.type.block_bytes;
  dequantise(tensor.type.type, tensor.bytes.data() + first_row * row_bytes, out);
}

}  // namespace poslab
