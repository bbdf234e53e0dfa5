// The autotuning cache on disk.
#include "backend/autotune_cache.h"

#include <catch2/catch_all.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support.h"

using namespace amp;
namespace fs = std::filesystem;

namespace {

struct CacheFolder : test::TempDir {
  std::string before = std::getenv("XDG_CACHE_HOME") ? std::getenv("XDG_CACHE_HOME") : "";
  CacheFolder() { setenv("XDG_CACHE_HOME", path.c_str(), 1); }
  ~CacheFolder() {
    if (before.empty())
      unsetenv("XDG_CACHE_HOME");
    else
      setenv("XDG_CACHE_HOME", before.c_str(), 1);
  }
};

}  // namespace

TEST_CASE("a choice is there for the next process, and the first one stands") {
  const CacheFolder folder;
  AutotuneCache a("convolutions-A GPU/1.txt"), b("convolutions-A GPU/1.txt"), other("convolutions-B.txt");
  CHECK_FALSE(a.find("forward 8"));
  b.keep("forward 8", "NHWC 1");
  CHECK(a.find("forward 8") == "NHWC 1");  // a reads the file at its first query, so it has b's entry
  b.keep("forward 8", "NCHW 0");
  a.keep("forward 8", "NCHW 0");
  CHECK(AutotuneCache("convolutions-A GPU/1.txt").find("forward 8") == "NHWC 1");
  CHECK_FALSE(other.find("forward 8"));
  CHECK(fs::exists(folder.path / "onnx-amp-finetune" / "convolutions-A_GPU_1.txt"));
}

TEST_CASE("a broken file of choices is no error") {
  const CacheFolder folder;
  fs::create_directories(folder.path / "onnx-amp-finetune");
  std::ofstream(folder.path / "onnx-amp-finetune" / "c.txt") << "no tab\nNHWC 2\tkey\nhalf a li";
  AutotuneCache c("c.txt");
  CHECK(c.find("key") == "NHWC 2");
  CHECK_FALSE(c.find("half"));
}
