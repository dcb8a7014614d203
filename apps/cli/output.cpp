#include "cli/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace poslab::cli {
namespace {

constexpr std::size_t buffer_bytes = 1 << 17;

[[noreturn]] void fail(std::string_view doing, std::string_view name, int error) {
  throw std::runtime_error(fmt::format("cannot {} {}: {}", doing, name, std::strerror(error)));
}

// /dev/stdout leads to /proc/self/fd/1, whose link is no path.
bool is_descriptor(std::string_view path) { return path.starts_with("/proc/"); }

// The file behind a chain of symlinks, whether or not it exists yet.
std::string link_target(const std::string& path) {
  std::string current = path;
  for (int hops = 0; hops < 40; ++hops) {
    if (is_descriptor(current)) return current;
    struct stat info {};
    if (lstat(current.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return current;
    std::string target(4096, '\0');
    const ssize_t n = readlink(current.c_str(), target.data(), target.size());
    if (n < 0) fail("follow", current, errno);
    target.resize(static_cast<std::size_t>(n));
    if (target.starts_with('/')) {
      current = target;
    } else {
      const std::size_t slash = current.rfind('/');
      current = slash == std::string::npos ? target : current.substr(0, slash + 1) + target;
    }
  }
  fail("follow", path, ELOOP);
}

std::string read_all(int fd, const std::string& name) {
  std::string out;
  if (lseek(fd, 0, SEEK_SET) < 0) fail("read", name, errno);
  for (;;) {
    char chunk[1 << 16];
    const ssize_t n = read(fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read", name, errno);
    if (n == 0) return out;
    out.append(chunk, static_cast<std::size_t>(n));
  }
}

}  // namespace

Writer::Writer(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}

void Writer::write(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= buffer_bytes) flush();
}

void Writer::flush() {
  std::size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t n = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (n >= 0) {
      done += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      const int error = errno;
      buffer_.clear();
      if (error == EPIPE) throw ClosedPipe();
      fail("write", name_, error);
    }
  }
  buffer_.clear();
}

OutputFile::Opened OutputFile::open(const std::string& path, Start start) {
  if (path.empty()) throw std::runtime_error("cannot write '': the path is empty");
  const std::string target = link_target(path);
  struct stat info {};
  const bool exists = stat(target.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) fail("write", path, EISDIR);
  if (exists && (!S_ISREG(info.st_mode) || is_descriptor(target))) {
    const int fd = ::open(target.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) fail("write", path, errno);
    return {fd, target, {}};
  }
  if (exists && access(target.c_str(), W_OK) != 0) fail("write", path, errno);
  const std::string partial = target + ".partial";
  const int fd = ::open(partial.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) fail("write", path, errno);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    throw std::runtime_error(fmt::format("cannot write {}: another run is writing {}", path, partial));
  }
  if (start == Start::fresh && ftruncate(fd, 0) != 0) fail("write", partial, errno);
  return {fd, target, partial};
}

void print(const Streams& streams, std::string_view text) {
  Writer out(streams.out, "standard output");
  out.write(text);
  out.flush();
}

OutputFile::OutputFile(const std::string& path, Start start) : OutputFile(open(path, start)) {}

OutputFile::OutputFile(Opened opened)
    : target_(std::move(opened.target)), partial_(std::move(opened.partial)), fd_(opened.fd), writer_(fd_, target_) {}

OutputFile::~OutputFile() {
  if (regular() && !committed_ && !keep_) unlink(partial_.c_str());
  close(fd_);
}

std::string OutputFile::partial_contents() const { return regular() ? read_all(fd_, partial_) : std::string(); }

void OutputFile::replace_partial(std::string_view contents) {
  // Through a second file and a rename, so that a crash here loses no finished point.
  const std::string rewritten = partial_ + ".rewrite";
  const int fd = ::open(rewritten.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) fail("write", rewritten, errno);
  try {
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) fail("lock", rewritten, errno);
    Writer writer(fd, target_);
    writer.write(contents);
    writer.flush();
    if (rename(rewritten.c_str(), partial_.c_str()) != 0) fail("write", partial_, errno);
    if (dup3(fd, fd_, O_CLOEXEC) < 0) fail("write", partial_, errno);
    close(fd);
  } catch (...) {
    close(fd);
    unlink(rewritten.c_str());
    throw;
  }
}

void OutputFile::commit() {
  writer_.flush();
  if (!regular()) return;
  struct stat info {};
  if (stat(target_.c_str(), &info) == 0) fchmod(fd_, info.st_mode & 07777);
  if (rename(partial_.c_str(), target_.c_str()) != 0) fail("write", target_, errno);
  committed_ = true;
}

}  // namespace poslab::cli
