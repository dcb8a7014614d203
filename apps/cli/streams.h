// Where a run reads and writes: file descriptors, so that every write is write(2) and its errno is reported.
#pragma once

namespace poslab::cli {

struct Streams {
  int in = 0, out = 1, err = 2;
  bool out_is_terminal = false, err_is_terminal = false;
  int width = 80;  // columns of the terminal
};

}  // namespace poslab::cli
