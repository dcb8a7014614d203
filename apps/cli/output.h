// Bytes out through write(2), with errno in every error; regular files appear whole or not at all.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "cli/streams.h"

namespace poslab::cli {

// The reader of a pipe has gone: the run ends quietly.
struct ClosedPipe : std::runtime_error {
  ClosedPipe() : std::runtime_error("closed pipe") {}
};

// A buffered file descriptor that it does not own. Throws std::runtime_error "cannot write NAME: <errno text>".
class Writer {
 public:
  Writer(int fd, std::string name);
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  void write(std::string_view bytes);
  void flush();

 private:
  int fd_;
  std::string name_;
  std::string buffer_;
};

// The whole text to standard output, for commands that print once.
void print(const Streams& streams, std::string_view text);

// The target of --output or --save-npy, opened before any computing. A regular file is written as PATH.partial and
// renamed by commit(); a symlink's target is replaced, not the link; anything else is written directly.
class OutputFile {
 public:
  enum class Start { fresh, keep };  // keep: the contents of an existing PATH.partial stay

  OutputFile(const std::string& path, Start start);
  ~OutputFile();  // uncommitted: removes PATH.partial unless kept
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  Writer& writer() { return writer_; }
  bool regular() const { return !partial_.empty(); }
  const std::string& path() const { return target_; }
  const std::string& partial_path() const { return partial_; }
  // What PATH.partial holds now, empty when there was none.
  std::string partial_contents() const;
  // Replaces the contents of PATH.partial in one step.
  void replace_partial(std::string_view contents);
  void keep_partial() { keep_ = true; }
  void commit();

 private:
  struct Opened {
    int fd;
    std::string target, partial;
  };
  static Opened open(const std::string& path, Start start);
  explicit OutputFile(Opened opened);

  std::string target_, partial_;
  int fd_;
  Writer writer_;
  bool keep_ = false;
  bool committed_ = false;
};

}  // namespace poslab::cli
