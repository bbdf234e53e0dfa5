// The functions of libc are replaced by definitions in the program itself, which call the originals (RTLD_NEXT).
#undef _FORTIFY_SOURCE  // its inline wrappers have the same names
#include "tests/faults.h"

#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace amp::test {

namespace {
std::function<int(const FileCall&)> hook;
}  // namespace

Faults::Faults(std::function<int(const FileCall&)> fault) { hook = std::move(fault); }
Faults::~Faults() { hook = nullptr; }
bool Faults::available() { return !TEST_SANITIZED; }

#if !TEST_SANITIZED
namespace {
thread_local bool inside = false;  // while the hook runs: its own calls are not intercepted

int fault_of(const FileCall& call) {
  const int fault = hook(call);
  if (fault == kKill) ::_exit(137);
  if (fault > 0) errno = fault;
  return fault;
}

// Returns 0, kShort, or an error code, which is also stored in errno.
int ask(const char* name, const char* path, const char* to) {
  if (!hook || inside) return kPass;
  inside = true;
  const int fault = fault_of({name, path, to});
  inside = false;
  return fault;
}

int ask(const char* name, int fd) {
  if (!hook || inside) return kPass;
  inside = true;
  char path[PATH_MAX] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  if (::readlink(link.c_str(), path, sizeof path - 1) < 0) path[0] = 0;
  const int fault = fault_of({name, path, {}});
  inside = false;
  return fault;
}

template <class F>
F original(const char* name) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

size_t shortened(size_t n, int fault) { return fault == kShort ? std::min<size_t>(n, 3) : n; }
}  // namespace
#endif

}  // namespace amp::test

#if !TEST_SANITIZED
using namespace amp::test;

extern "C" {
int rename(const char* from, const char* to) noexcept {
  static const auto real = original<int (*)(const char*, const char*)>("rename");
  return ask("rename", from, to) > 0 ? -1 : real(from, to);
}

int renameat2(int a, const char* from, int b, const char* to, unsigned flags) noexcept {
  static const auto real = original<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  return ask("renameat2", from, to) > 0 ? -1 : real(a, from, b, to, flags);
}

ssize_t read(int fd, void* to, size_t n) {
  static const auto real = original<ssize_t (*)(int, void*, size_t)>("read");
  const int fault = ask("read", fd);
  return fault > 0 ? -1 : real(fd, to, shortened(n, fault));
}

ssize_t pread(int fd, void* to, size_t n, off_t at) {
  static const auto real = original<ssize_t (*)(int, void*, size_t, off_t)>("pread");
  const int fault = ask("pread", fd);
  return fault > 0 ? -1 : real(fd, to, shortened(n, fault), at);
}

ssize_t write(int fd, const void* from, size_t n) {
  static const auto real = original<ssize_t (*)(int, const void*, size_t)>("write");
  const int fault = ask("write", fd);
  return fault > 0 ? -1 : real(fd, from, shortened(n, fault));
}

int fsync(int fd) {
  static const auto real = original<int (*)(int)>("fsync");
  return ask("fsync", fd) > 0 ? -1 : real(fd);
}

int fdatasync(int fd) {
  static const auto real = original<int (*)(int)>("fdatasync");
  return ask("fdatasync", fd) > 0 ? -1 : real(fd);
}
}
#endif
