#include "cli/output.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "scratch.h"

using namespace poslab::cli;
namespace fs = std::filesystem;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace

TEST_CASE("a file appears whole at commit, or not at all") {
  const Scratch folder;
  const std::string path = folder.path("a.json");
  {
    OutputFile out(path, OutputFile::Start::fresh);
    out.writer().write("half");
    out.writer().flush();
    CHECK(text_of(path + ".partial") == "half");
    CHECK_FALSE(fs::exists(path));
  }
  CHECK_FALSE(fs::exists(path + ".partial"));
  CHECK_FALSE(fs::exists(path));
  OutputFile out(path, OutputFile::Start::fresh);
  out.writer().write("whole");
  out.commit();
  CHECK(text_of(path) == "whole");
  CHECK_FALSE(fs::exists(path + ".partial"));
}

TEST_CASE("a symlink's target is replaced, not the link; modes stay") {
  const Scratch folder;
  std::ofstream(folder.path("target")) << "old";
  chmod(folder.path("target").c_str(), 0640);
  fs::create_symlink("target", folder.path("link"));
  OutputFile out(folder.path("link"), OutputFile::Start::fresh);
  out.writer().write("new");
  out.commit();
  CHECK(fs::is_symlink(folder.path("link")));
  CHECK(text_of(folder.path("target")) == "new");
  struct stat info {};
  stat(folder.path("target").c_str(), &info);
  CHECK((info.st_mode & 0777) == 0640);
}

TEST_CASE("a kept partial survives and can be rewritten in one step") {
  const Scratch folder;
  const std::string path = folder.path("a.ndjson");
  {
    OutputFile out(path, OutputFile::Start::fresh);
    out.keep_partial();
    out.writer().write("1\n2\n");
    out.writer().flush();
  }
  OutputFile out(path, OutputFile::Start::keep);
  CHECK(out.partial_contents() == "1\n2\n");
  out.replace_partial("2\n");
  out.writer().write("3\n");
  out.commit();
  CHECK(text_of(path) == "2\n3\n");
}

TEST_CASE("unwritable targets are errors before computing, with the system's words") {
  const Scratch folder;
  CHECK_THROWS_WITH(OutputFile(folder.path("no/such/dir"), OutputFile::Start::fresh),
                    doctest::Contains("No such file or directory"));
  CHECK_THROWS_WITH(OutputFile(folder.path(""), OutputFile::Start::fresh), doctest::Contains("Is a directory"));
  OutputFile first(folder.path("a"), OutputFile::Start::fresh);
  CHECK_THROWS_WITH(OutputFile(folder.path("a"), OutputFile::Start::fresh), doctest::Contains("another run"));
}

TEST_CASE("a full disk and a closed pipe are told apart") {
  OutputFile full("/dev/full", OutputFile::Start::fresh);
  full.writer().write("x");
  CHECK_THROWS_WITH(full.commit(), doctest::Contains("No space left on device"));

  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  close(ends[0]);
  Writer writer(ends[1], "pipe");
  writer.write("x");
  CHECK_THROWS_AS(writer.flush(), ClosedPipe);
  close(ends[1]);
}
