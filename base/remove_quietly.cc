// Implements remove_quietly(). Folders are listed by the system call getdents64, because opendir() allocates memory.
#include "base/remove_quietly.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "base/io.h"

namespace amp {

namespace {

constexpr int kDeepest = 4;

void remove_at(int folder, const char* name, int level) noexcept {
  if (::unlinkat(folder, name, 0) == 0 || level > kDeepest) return;
  const int fd = retried([&] { return ::openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); });
  if (fd < 0) return;
  alignas(dirent64) char buffer[4096];
  for (long n; (n = ::syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0;) {
    for (long at = 0; at < n;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(buffer + at);
      at += entry->d_reclen;
      if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
        remove_at(fd, entry->d_name, level + 1);
    }
  }
  ::close(fd);
  ::unlinkat(folder, name, AT_REMOVEDIR);
}

}  // namespace

void remove_quietly(const char* path) noexcept { remove_at(AT_FDCWD, path, 1); }

}  // namespace amp
