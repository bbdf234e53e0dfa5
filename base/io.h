// Calls on file descriptors that a signal or the file system may interrupt (EINTR; FUSE and NFS) or shorten. All
// modules read and write files with these.
#pragma once

#include <cerrno>
#include <cstdint>

namespace amp {

// Calls f(), a system call that returns -1 on failure, until it is not interrupted. Not for close(): Linux has released
// the descriptor by then.
template <class F>
auto retried(const F& f) {
  decltype(f()) result;
  do result = f();
  while (result < 0 && errno == EINTR);
  return result;
}

int open_file(const char* path, int flags, unsigned mode = 0);  // O_CLOEXEC is added
// Reads until `size` bytes or the end of the file. Returns the number of bytes read; -1: errno.
int64_t read_fully(int fd, void* to, int64_t size);
int64_t read_fully_at(int fd, void* to, int64_t size, int64_t offset);  // the file position does not change
// Writes all bytes. Returns how many were written; fewer than `size`: errno.
int64_t write_fully(int fd, const void* from, int64_t size);
int sync_file(int fd);   // fsync(); -1: errno. Repeated only after EINTR, which leaves the pages marked as changed
int close_file(int fd);  // close(); an interruption is not an error

}  // namespace amp
