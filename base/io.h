// Reads and writes with file descriptors that continue when a signal interrupts the call (EINTR) or the file
// system transfers fewer bytes than requested (FUSE, NFS). All modules read and write files with these functions.
#pragma once

#include <cerrno>
#include <cstdint>

namespace amp {

// Calls f(), a system call that returns -1 on failure, again as long as signals interrupt it. Must not be used for
// close(), because Linux has released the descriptor even if close() was interrupted.
template <class F>
auto retried(const F& f) {
  decltype(f()) result;
  do result = f();
  while (result < 0 && errno == EINTR);
  return result;
}

int open_file(const char* path, int flags, unsigned mode = 0);  // adds O_CLOEXEC to the flags
// Reads until `size` bytes or the end of the file. Returns the number of bytes read, or -1 with errno set.
int64_t read_fully(int fd, void* to, int64_t size);
int64_t read_fully_at(int fd, void* to, int64_t size, int64_t offset);  // the file position does not change
// Writes all bytes. Returns the number of bytes written; if it is less than `size`, errno says why.
int64_t write_fully(int fd, const void* from, int64_t size);
// fsync(); -1 if it fails, see errno. Repeated only after EINTR, because pages are then still dirty.
int sync_file(int fd);
int close_file(int fd);  // close(); an interruption by a signal is not an error

}  // namespace amp
