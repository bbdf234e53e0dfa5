#include "tests/support.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace amp::test {

namespace fs = std::filesystem;

std::string source_root() { return TEST_SOURCE_ROOT; }

std::string test_data(const std::string& name) {
  const char* named = std::getenv("ONNX_AMP_TEST_DATA");  // set if a bundle for another machine contains these files
  return ((named && *named ? fs::path(named) : fs::path(source_root()) / "tests" / "data") / name).string();
}

std::string onnx_test_data() { return TEST_ONNX_DATA; }
std::string host_compiler() { return TEST_CXX; }

std::string no_memory_limits() {
  if (TEST_SANITIZED) return "sanitizers reserve the address space";
  rlimit before{}, seen{};
  ::getrlimit(RLIMIT_AS, &before);
  const rlimit probe{std::min(before.rlim_cur, rlim_t{1} << 46) - 4096, before.rlim_max};
  ::setrlimit(RLIMIT_AS, &probe);
  ::getrlimit(RLIMIT_AS, &seen);
  ::setrlimit(RLIMIT_AS, &before);
  return seen.rlim_cur == probe.rlim_cur ? "" : "QEMU ignores limits of the address space";
}

TempDir::TempDir() {
  std::string name = (fs::temp_directory_path() / "onnx-amp-test-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::system_error(errno, std::generic_category(), name);
  path = fs::canonical(name);
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace amp::test
