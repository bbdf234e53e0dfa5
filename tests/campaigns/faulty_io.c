// A library to preload (LD_PRELOAD) that makes a file system worse than the one at hand. The environment chooses:
//   FAULTY_IO_EXCHANGE=FILE  renameat2 with flags fails with EINVAL, as on NFS and some FUSE; a byte is added to FILE
//   FAULTY_IO_KILL=N       the process is killed at the N-th rename (from 0) after such a failure
//   FAULTY_IO_SHORT=SEED   reads and writes do a part of what is asked; every third write is interrupted (EINTR)
// gcc -shared -fPIC -O1 -o faulty_io.so faulty_io.c -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static unsigned calls, refused, renames;

// Returns the number of bytes to transfer instead of `size`. Sets `interrupted` if the call must fail with EINTR.
static size_t part_of(size_t size, int* interrupted) {
  const char* seed = getenv("FAULTY_IO_SHORT");
  *interrupted = 0;
  if (!seed) return size;
  const unsigned call = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
  *interrupted = call % 3 == 0;
  return size > 1 ? 1 + (size - 1) * ((call + (unsigned)atoi(seed)) * 2654435761u % 97) / 97 : size;
}

#define WRITE(name, parameters, call)                                   \
  ssize_t name parameters {                                             \
    static ssize_t(*original) parameters;                               \
    if (!original) original = (ssize_t(*) parameters)dlsym(RTLD_NEXT, #name); \
    int interrupted;                                                    \
    size = part_of(size, &interrupted);                                 \
    if (interrupted) {                                                  \
      errno = EINTR;                                                    \
      return -1;                                                        \
    }                                                                   \
    return call;                                                        \
  }
#define READ(name, parameters, call)                                    \
  ssize_t name parameters {                                             \
    static ssize_t(*original) parameters;                               \
    if (!original) original = (ssize_t(*) parameters)dlsym(RTLD_NEXT, #name); \
    int interrupted;                                                    \
    size = part_of(size, &interrupted);                                 \
    return call;                                                        \
  }

WRITE(write, (int fd, const void* from, size_t size), original(fd, from, size))
WRITE(pwrite, (int fd, const void* from, size_t size, off_t at), original(fd, from, size, at))
WRITE(pwrite64, (int fd, const void* from, size_t size, off_t at), original(fd, from, size, at))
READ(read, (int fd, void* to, size_t size), original(fd, to, size))
READ(pread, (int fd, void* to, size_t size, off_t at), original(fd, to, size, at))
READ(pread64, (int fd, void* to, size_t size, off_t at), original(fd, to, size, at))

int renameat2(int from_dir, const char* from, int to_dir, const char* to, unsigned flags) {
  static int (*original)(int, const char*, int, const char*, unsigned);
  if (!original) original = (int (*)(int, const char*, int, const char*, unsigned))dlsym(RTLD_NEXT, "renameat2");
  const char* const log = flags ? getenv("FAULTY_IO_EXCHANGE") : NULL;
  if (log) {
    const int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd >= 0) {
      write(fd, ".", 1);
      close(fd);
    }
    refused = 1;
    errno = EINVAL;
    return -1;
  }
  return original(from_dir, from, to_dir, to, flags);
}

int rename(const char* from, const char* to) {
  static int (*original)(const char*, const char*);
  if (!original) original = (int (*)(const char*, const char*))dlsym(RTLD_NEXT, "rename");
  const char* const number = getenv("FAULTY_IO_KILL");
  if (number && refused && renames++ == (unsigned)atoi(number)) kill(getpid(), SIGKILL);
  return original(from, to);
}
