#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "cli/run.h"

int main(int argc, char** argv) {
  // Writes report a closed pipe as EPIPE, so that files are tidied up; then the process ends as other filters do.
  std::signal(SIGPIPE, SIG_IGN);
  // So does a limit on the size of files.
  std::signal(SIGXFSZ, SIG_IGN);
  poslab::cli::Streams streams;
  streams.out_is_terminal = isatty(STDOUT_FILENO) == 1;
  streams.err_is_terminal = isatty(STDERR_FILENO) == 1;
  if (winsize size{}; streams.out_is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    streams.width = size.ws_col;
  }
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  const int status = poslab::cli::run(words, streams);
  if (status == poslab::cli::closed_pipe) {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  return status;
}
