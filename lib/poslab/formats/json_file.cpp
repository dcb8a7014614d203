#include "poslab/formats/json_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "poslab/core/printable.h"

namespace poslab {
namespace {

using nlohmann::json;

[[noreturn]] void fail(std::string_view source, std::string_view what) {
  throw std::invalid_argument(fmt::format("[read_json] {}: {}.", source, what));
}

// Builds the value and remembers the first thing that is wrong. The base class is nlohmann's SAX interface.
class StrictBuilder : public nlohmann::json_sax<json> {
 public:
  explicit StrictBuilder(int max_depth) : max_depth_(max_depth) {}

  json take() { return std::move(root_); }
  const std::string& error() const { return error_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool v) override { return add(v); }
  bool number_integer(json::number_integer_t v) override { return add(v); }
  bool number_unsigned(json::number_unsigned_t v) override { return add(v); }
  bool number_float(json::number_float_t v, const std::string&) override { return add(v); }
  bool string(std::string& v) override { return add(std::move(v)); }
  bool binary(json::binary_t&) override { return refuse("binary values are not JSON"); }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    const auto [slot, fresh] = open_.back()->get_ref<json::object_t&>().emplace(name, nullptr);
    if (!fresh) return refuse(fmt::format("duplicate key '{}'", printable(name, 160)));
    slot_ = &slot->second;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
    std::string_view what = e.what();
    if (const auto end = what.find("] "); end != what.npos) what.remove_prefix(end + 2);
    return refuse(fmt::format("not JSON: {}", printable(what, 160)));
  }

 private:
  bool refuse(std::string what) {
    if (error_.empty()) error_ = std::move(what);
    return false;
  }

  json* place(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *slot_ = std::move(value);
    return slot_;
  }

  template <class T>
  bool add(T&& value) {
    place(json(std::forward<T>(value)));
    return true;
  }

  bool open(json container) {
    if (static_cast<int>(open_.size()) >= max_depth_)
      return refuse(fmt::format("nested deeper than {} levels", max_depth_));
    open_.push_back(place(std::move(container)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  int max_depth_;
  json root_;
  std::vector<json*> open_;  // stays valid: a container only grows while nothing inside it is open
  json* slot_ = nullptr;     // where the value of the last key goes
  std::string error_;
};

struct File {
  int fd;
  explicit File(const std::string& path) : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (fd >= 0) ::close(fd);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
};

std::string too_large() { return fmt::format("larger than {} MB", json_max_bytes / (1024 * 1024)); }

std::string read_text(const std::string& path) {
  const File file(path);
  struct stat info {};
  if (file.fd < 0 || ::fstat(file.fd, &info) != 0) fail(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  if (S_ISDIR(info.st_mode)) fail(path, "is a directory, not a JSON file");
  if (S_ISREG(info.st_mode) && info.st_size > json_max_bytes) fail(path, too_large());

  std::string text;
  std::vector<char> block(64 * 1024);
  while (true) {
    const ssize_t got = ::read(file.fd, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (got == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(got));
    if (static_cast<std::int64_t>(text.size()) > json_max_bytes) fail(path, too_large());
  }
}

}  // namespace

json parse_json(std::string_view text, std::string_view source, int max_depth) {
  if (static_cast<std::int64_t>(text.size()) > json_max_bytes) fail(source, too_large());
  // The parser takes a zero byte for the end of the text.
  if (text.find('\0') != text.npos) fail(source, "not JSON: it holds a zero byte");
  StrictBuilder builder(max_depth);
  if (!json::sax_parse(text.begin(), text.end(), &builder)) fail(source, builder.error());
  return builder.take();
}

json read_json_file(const std::string& path, int max_depth) { return parse_json(read_text(path), path, max_depth); }

}  // namespace poslab
