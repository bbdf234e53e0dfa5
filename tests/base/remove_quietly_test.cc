// Removal of files and folders without memory.
#include "base/remove_quietly.h"

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
