#include "poslab/core/file_write.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <stdexcept>

#include "scratch.h"

TEST_CASE("write_file and replace_folder leave alone what is no file and no folder") {
  const Scratch scratch;
  const std::string pipe = scratch.path("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_AS(poslab::write_file(pipe, {}), std::runtime_error);
  const std::string fresh = scratch.path("fresh");
  std::filesystem::create_directory(fresh);
  CHECK_THROWS_AS(poslab::replace_folder(fresh, pipe), std::runtime_error);
  CHECK(std::filesystem::is_fifo(pipe));
}
