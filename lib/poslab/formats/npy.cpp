#include "poslab/formats/npy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

#include "poslab/core/printable.h"

namespace poslab {
namespace {

static_assert(std::endian::native == std::endian::little, "read_elements takes the machine's order for little");

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t max_header_bytes = 1 << 20;
constexpr std::size_t max_dimensions = 64;  // numpy's own limit

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  throw std::invalid_argument(fmt::format("[read_npy] {}: {}.", path, what));
}

class File {
 public:
  // O_NONBLOCK: opening a pipe must not wait for its writer; a regular file does not care.
  explicit File(const std::string& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0) fail(path_, std::strerror(errno));
    struct stat status {};
    const bool known = ::fstat(fd_, &status) == 0;
    if (!known || !S_ISREG(status.st_mode)) {
      const char* what =
          known ? S_ISDIR(status.st_mode) ? "is a directory" : "is not a regular file" : std::strerror(errno);
      ::close(fd_);
      fail(path_, what);
    }
    size_ = status.st_size;
  }
  File(std::string name, std::span<const std::byte> bytes)
      : path_(std::move(name)), bytes_(bytes), size_(static_cast<std::int64_t>(bytes.size())) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }

  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }

  // The next `count` bytes.
  void read(char* out, std::size_t count) {
    if (fd_ < 0) {
      if (count > bytes_.size()) fail(path_, "is truncated");
      std::memcpy(out, bytes_.data(), count);
      bytes_ = bytes_.subspan(count);
      return;
    }
    while (count > 0) {
      const ssize_t got = ::read(fd_, out, count);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(path_, std::strerror(errno));
      if (got == 0) fail(path_, "is truncated");
      out += got;
      count -= static_cast<std::size_t>(got);
    }
  }

 private:
  std::string path_;
  int fd_ = -1;
  std::span<const std::byte> bytes_;  // where there is no file descriptor
  std::int64_t size_ = 0;
};

struct Header {
  std::string descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;
};

// Reads the Python dictionary that a header is; nullopt where the text is none.
class HeaderText {
 public:
  explicit HeaderText(std::string_view text) : text_(text) {}

  std::optional<Header> parse() {
    Header header;
    if (!take('{')) return std::nullopt;
    while (!take('}')) {
      const auto key = quoted();
      if (!key || !take(':') || !value(*key, header)) return std::nullopt;
      if (!take(',') && peek() != '}') return std::nullopt;
    }
    if (peek() != '\0' || header.descr.empty() || !header.fortran_order || !header.shape) return std::nullopt;
    return header;
  }

 private:
  char peek() {
    while (!text_.empty() && std::strchr(" \t\r\n", text_.front()) != nullptr) text_.remove_prefix(1);
    return text_.empty() ? '\0' : text_.front();
  }
  bool take(char c) {
    if (peek() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool take(std::string_view word) {
    peek();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string> quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const std::size_t end = text_.find(quote, 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string out(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return out;
  }
  bool value(std::string_view key, Header& header) {
    if (key == "descr" && header.descr.empty()) {
      // A list of fields stands for a structured dtype: keep its text for the error.
      if (peek() == '[') {
        const std::size_t end = text_.rfind(']');
        if (end == std::string_view::npos) return false;
        header.descr = text_.substr(0, end + 1);
        text_.remove_prefix(end + 1);
        return true;
      }
      const auto descr = quoted();
      if (!descr || descr->empty()) return false;
      header.descr = *descr;
      return true;
    }
    if (key == "fortran_order" && !header.fortran_order) {
      if (take("True")) header.fortran_order = true;
      if (take("False")) header.fortran_order = false;
      return header.fortran_order.has_value();
    }
    if (key == "shape" && !header.shape) {
      if (!take('(')) return false;
      header.shape.emplace();
      while (!take(')')) {
        const auto size = dimension();
        if (!size) return false;
        header.shape->push_back(*size);
        if (!take(',') && peek() != ')') return false;
      }
      return true;
    }
    return false;
  }
  // Too large a number becomes the largest, which no file size can match. Python 2 wrote 64L.
  std::optional<std::int64_t> dimension() {
    if (peek() < '0' || peek() > '9') return std::nullopt;
    std::int64_t size = 0;
    for (; !text_.empty() && text_.front() >= '0' && text_.front() <= '9'; text_.remove_prefix(1)) {
      const std::int64_t digit = text_.front() - '0';
      if (__builtin_mul_overflow(size, std::int64_t{10}, &size) || __builtin_add_overflow(size, digit, &size)) {
        size = std::numeric_limits<std::int64_t>::max();
      }
    }
    if (!text_.empty() && text_.front() == 'L') text_.remove_prefix(1);
    return size;
  }

  std::string_view text_;
};

struct Layout {
  char kind = 'f';  // f, i, u, b as in numpy
  std::size_t item = 8;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::int64_t count = 0;
};

// Reads up to the data, and checks the header against the file's size.
Layout read_layout(File& file) {
  std::array<char, 12> start{};
  if (file.size() < 10) fail(file.path(), "is not a .npy file (too short)");
  file.read(start.data(), 8);
  if (std::string_view(start.data(), magic.size()) != magic) {
    fail(file.path(), "is not a .npy file (it does not start with \\x93NUMPY)");
  }
  const int version = start[6];
  if (version < 1 || version > 3 || start[7] != 0) {
    fail(file.path(), fmt::format("has .npy version {}.{}; 1.0, 2.0 and 3.0 are known", version, int{start[7]}));
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  if (file.size() < static_cast<std::int64_t>(8 + length_bytes)) fail(file.path(), "is truncated in its header");
  file.read(start.data() + 8, length_bytes);
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    length |= static_cast<std::size_t>(static_cast<unsigned char>(start[8 + i])) << (8 * i);
  }
  const std::int64_t offset = static_cast<std::int64_t>(8 + length_bytes + length);
  if (offset > file.size()) fail(file.path(), "is truncated in its header");
  if (length > max_header_bytes) fail(file.path(), fmt::format("has a header of {} bytes", length));
  std::string text(length, '\0');
  file.read(text.data(), length);
  const auto header = HeaderText(text).parse();
  if (!header) fail(file.path(), "has a header that is not numpy's");

  Layout layout;
  std::string_view type = header->descr;
  if (std::string_view("<>|=").find(type.front()) != std::string_view::npos) {
    layout.big_endian = type.front() == '>';
    type.remove_prefix(1);
  }
  static constexpr std::array<std::string_view, 12> known{"f2", "f4", "f8", "i1", "i2", "i4",
                                                          "i8", "u1", "u2", "u4", "u8", "b1"};
  if (std::find(known.begin(), known.end(), type) == known.end()) {
    fail(file.path(), fmt::format("holds elements of dtype {}; float16 to float64, integers and bool can be read",
                                  printable(header->descr)));
  }
  layout.kind = type.front();
  layout.item = static_cast<std::size_t>(type[1] - '0');
  layout.fortran_order = *header->fortran_order;
  layout.shape = *header->shape;
  if (layout.shape.size() > max_dimensions) {
    fail(file.path(), fmt::format("has {} dimensions", layout.shape.size()));
  }
  layout.count = 1;
  std::int64_t bytes = 0;
  bool overflow = false;
  for (std::int64_t size : layout.shape) overflow |= __builtin_mul_overflow(layout.count, size, &layout.count);
  overflow |= __builtin_mul_overflow(layout.count, static_cast<std::int64_t>(layout.item), &bytes);
  if (overflow) fail(file.path(), fmt::format("has a shape that overflows ({})", shape_text(layout.shape)));
  const std::int64_t held = file.size() - offset;
  if (bytes != held) {
    fail(file.path(), fmt::format("{}: its header ({} of dtype {}) asks for {} bytes of data and it holds {}",
                                  held < bytes ? "is truncated" : "has trailing bytes", shape_text(layout.shape),
                                  printable(header->descr), bytes, held));
  }
  return layout;
}

// Where the file's next element stands in C order.
class Place {
 public:
  explicit Place(const Layout& layout) {
    if (!layout.fortran_order || layout.count == 0) {
      // Elements come in C order: one dimension holds them all.
      shape_ = {layout.count};
      strides_ = {1};
    } else {
      shape_ = layout.shape;
      strides_.resize(shape_.size());
      std::int64_t stride = 1;
      for (std::size_t d = shape_.size(); d-- > 0; stride *= shape_[d]) strides_[d] = stride;
    }
    index_.resize(shape_.size());
  }
  std::size_t next() {
    const std::int64_t place = place_;
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      place_ += strides_[d];
      if (++index_[d] < shape_[d]) break;
      place_ -= strides_[d] * shape_[d];
      index_[d] = 0;
    }
    return static_cast<std::size_t>(place);
  }

 private:
  std::vector<std::int64_t> shape_, strides_, index_;
  std::int64_t place_ = 0;
};

template <class T>
std::int64_t exact_integer(T value, const std::string& path) {
  if (!std::in_range<std::int64_t>(value)) fail(path, fmt::format("holds {}, beyond the 64-bit integers", value));
  return static_cast<std::int64_t>(value);
}

template <class T>
double exact_double(T value, const std::string& path) {
  const auto real = static_cast<double>(value);
  // Rounding may have reached the first value beyond T, which must not be cast back.
  const bool fits = real < std::ldexp(1.0, std::numeric_limits<T>::digits) && static_cast<T>(real) == value;
  if (!fits) fail(path, fmt::format("holds {}, which no double equals", value));
  return real;
}

// Stored is the element in the file: an unsigned word of its bits for floats, else its integer type.
template <class Out, class Stored, class Convert>
void read_elements(File& file, const Layout& layout, std::span<Out> out, Convert convert) {
  Place place(layout);
  std::vector<char> buffer(std::min<std::size_t>(1 << 16, static_cast<std::size_t>(layout.count) * sizeof(Stored)));
  for (std::size_t left = static_cast<std::size_t>(layout.count) * sizeof(Stored); left > 0;) {
    const std::size_t count = std::min(left, buffer.size());
    file.read(buffer.data(), count);
    for (std::size_t at = 0; at < count; at += sizeof(Stored)) {
      if (layout.big_endian) std::reverse(buffer.data() + at, buffer.data() + at + sizeof(Stored));
      Stored stored;
      std::memcpy(&stored, buffer.data() + at, sizeof stored);
      out[place.next()] = convert(stored);
    }
    left -= count;
  }
}

// The file's data into `out`, whose size is the layout's count.
template <class Out>
void read_data(File& file, const Layout& layout, std::span<Out> out) {
  const std::string& path = file.path();
  const auto elements = [&]<class Stored>(Stored, auto convert) {
    read_elements<Out, Stored>(file, layout, out, convert);
  };
  const auto integers = [&]<class Stored>(Stored type) {
    elements(type, [&](Stored v) {
      if constexpr (std::is_same_v<Out, double>) {
        return exact_double(v, path);
      } else {
        return exact_integer(v, path);
      }
    });
  };
  switch (layout.kind) {
    case 'f':
      if constexpr (std::is_same_v<Out, double>) {
        if (layout.item == 2) elements(std::uint16_t{}, [](std::uint16_t v) { return double{f16_from_bits(v)}; });
        if (layout.item == 4) elements(float{}, [](float v) { return double{v}; });
        if (layout.item == 8) elements(double{}, [](double v) { return v; });
      } else {
        fail(path, fmt::format("holds float{} elements where integers are needed", 8 * layout.item));
      }
      break;
    case 'i':
      if (layout.item == 1) integers(std::int8_t{});
      if (layout.item == 2) integers(std::int16_t{});
      if (layout.item == 4) integers(std::int32_t{});
      if (layout.item == 8) integers(std::int64_t{});
      break;
    case 'u':
      if (layout.item == 1) integers(std::uint8_t{});
      if (layout.item == 2) integers(std::uint16_t{});
      if (layout.item == 4) integers(std::uint32_t{});
      if (layout.item == 8) integers(std::uint64_t{});
      break;
    default:
      elements(std::uint8_t{}, [](std::uint8_t v) { return static_cast<Out>(v != 0); });
  }
}

template <class Out>
NpyArray<Out> read(File file) {
  const Layout layout = read_layout(file);
  NpyArray<Out> array{layout.shape, std::vector<Out>(static_cast<std::size_t>(layout.count))};
  read_data<Out>(file, layout, array.values);
  return array;
}

}  // namespace

NpyArray<double> read_npy(const std::string& path) { return read<double>(File(path)); }
NpyArray<double> read_npy_bytes(const std::string& name, std::span<const std::byte> bytes) {
  return read<double>(File(name, bytes));
}
NpyArray<std::int64_t> read_npy_integers(const std::string& path) { return read<std::int64_t>(File(path)); }

Tensor<double, 2> read_npy_matrix(const std::string& path) {
  File file(path);
  const Layout layout = read_layout(file);
  if (layout.shape.size() != 2 || layout.count == 0) {
    fail(path, fmt::format("must be a table of rows and columns but has shape {}", shape_text(layout.shape)));
  }
  auto table = make_tensor<double>(layout.shape[0], layout.shape[1]);
  const std::span<double> values = flat(table);
  read_data<double>(file, layout, values);
  const auto bad = std::find_if(values.begin(), values.end(), [](double v) { return !std::isfinite(v); });
  if (bad != values.end()) {
    const std::int64_t at = bad - values.begin();
    fail(path, fmt::format("holds {} in row {}, column {}", *bad, at / layout.shape[1], at % layout.shape[1]));
  }
  return table;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return shape.empty() ? "a single value" : fmt::format("{}", fmt::join(shape, " x "));
}

std::string npy_header(DType dtype, std::span<const std::int64_t> shape) {
  constexpr std::size_t prefix = 10, alignment = 64;
  const std::string_view descr = dtype == DType::f64   ? "<f8"
                                 : dtype == DType::f32 ? "<f4"
                                 : dtype == DType::f16 ? "<f2"
                                                       : "<u2";
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const std::size_t length = (prefix + text.size() + 1 + alignment - 1) / alignment * alignment - prefix;
  text.resize(length - 1, ' ');
  text += '\n';
  std::string header(magic);
  header += {'\x01', '\x00', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return header + text;
}

}  // namespace poslab
