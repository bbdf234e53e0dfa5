#include "base/io.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

namespace amp {

namespace {
constexpr int64_t kMost = int64_t{1} << 30;  // Linux transfers at most 2 GiB - 4 KiB per call

// Calls f(bytes done, bytes left) until all bytes are transferred, f returns 0, or f fails. Returns the number of bytes
// transferred.
template <class F>
int64_t transfer(int64_t size, bool& failed, const F& f) {
  int64_t done = 0;
  failed = false;
  while (done < size) {
    const auto n = retried([&] { return f(done, static_cast<size_t>(std::min(size - done, kMost))); });
    failed = n < 0;
    if (n <= 0) break;
    done += n;
  }
  return done;
}
}  // namespace

int open_file(const char* path, int flags, unsigned mode) {
  return retried([&] { return ::open(path, flags | O_CLOEXEC, mode); });
}

int64_t read_fully(int fd, void* to, int64_t size) {
  bool failed;
  const int64_t done =
      transfer(size, failed, [&](int64_t at, size_t n) { return ::read(fd, static_cast<char*>(to) + at, n); });
  return failed ? -1 : done;
}

int64_t read_fully_at(int fd, void* to, int64_t size, int64_t offset) {
  bool failed;
  const int64_t done = transfer(
      size, failed, [&](int64_t at, size_t n) { return ::pread(fd, static_cast<char*>(to) + at, n, offset + at); });
  return failed ? -1 : done;
}

int64_t write_fully(int fd, const void* from, int64_t size) {
  bool failed;
  return transfer(size, failed,
                  [&](int64_t at, size_t n) { return ::write(fd, static_cast<const char*>(from) + at, n); });
}

int sync_file(int fd) {
  return retried([&] { return ::fsync(fd); });
}

int close_file(int fd) {
  const int result = ::close(fd);
  return result != 0 && errno == EINTR ? 0 : result;
}

}  // namespace amp
