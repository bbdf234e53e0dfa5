// Tests the removal of files and folders when no memory can be allocated.
#include "base/remove_quietly.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support.h"

using namespace amp;
namespace stdfs = std::filesystem;

TEST_CASE("a folder is removed with its contents, and links are not followed") {
  const test::TempDir f;
  stdfs::create_directories(f / "folder/inner/empty");
  stdfs::create_directories(f / "kept");
  for (int i = 0; i < 200; ++i) std::ofstream(f / ("folder/inner/a file with a long name " + std::to_string(i))) << "x";
  std::ofstream(f / "kept/file") << "x";
  stdfs::create_symlink(f / "kept", f / "folder/link");
  remove_quietly((f / "folder").c_str());
  CHECK_FALSE(stdfs::exists(f / "folder"));
  CHECK(stdfs::exists(f / "kept/file"));
  stdfs::create_symlink(f / "kept", f / "link");
  remove_quietly((f / "link").c_str());
  CHECK_FALSE(stdfs::is_symlink(f / "link"));
  CHECK(stdfs::exists(f / "kept/file"));
  remove_quietly((f / "kept/file").c_str());
  CHECK_FALSE(stdfs::exists(f / "kept/file"));
  remove_quietly((f / "missing").c_str());
}

TEST_CASE("a link that cannot be removed is not followed") {
  const test::TempDir f;
  stdfs::create_directories(f / "closed");
  stdfs::create_directories(f / "kept");
  std::ofstream(f / "kept/file") << "x";
  stdfs::create_symlink(f / "kept", f / "closed/link");
  stdfs::permissions(f.path, stdfs::perms(0755));
  stdfs::permissions(f / "kept", stdfs::perms(0777));
  stdfs::permissions(f / "closed", stdfs::perms(0555));
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(1);  // root may change every folder, so another user is set
    remove_quietly((f / "closed/link").c_str());
    ::_exit(::access((f / "closed/link").c_str(), F_OK) == 0 ? 0 : 2);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(stdfs::exists(f / "kept/file"));
  stdfs::permissions(f / "closed", stdfs::perms(0755));
}
