// Allocation faults by LD_PRELOAD: malloc, calloc, realloc, aligned_alloc, posix_memalign and mmap fail at a chosen
// call, counted over all threads from the beginning of main. Allocations of static initializers, which run before
// main, do not fail: some libraries (GnuTLS) would end the process, and the program cannot change that.
//   ALLOCATION_FAULT_AT=K      call K fails (1: the first)
//   ALLOCATION_FAULT_ONWARD=1  all later calls fail, too
//   ALLOCATION_FAULT_LOG=FILE  receives the number of calls when the process ends, or the stack of call K
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static atomic_long calls;
static atomic_int counting;
static long at;
static int onward;
static const char* log_file;
static _Thread_local int inside __attribute__((tls_model("initial-exec")));

static void trace(void) {
  void* stack[60];
  const int fd = open(log_file, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (fd < 0) return;
  backtrace_symbols_fd(stack, backtrace(stack, 60), fd);
  close(fd);
}

static int fails(void) {
  if (!counting || inside) return 0;
  const long n = atomic_fetch_add(&calls, 1) + 1;
  if (!at || n < at || (n > at && !onward)) return 0;
  if (n == at && log_file) {
    inside = 1;
    trace();
    inside = 0;
  }
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t n) { return fails() ? NULL : __libc_malloc(n); }
void* calloc(size_t n, size_t size) { return fails() ? NULL : __libc_calloc(n, size); }
void* realloc(void* p, size_t n) { return fails() ? NULL : __libc_realloc(p, n); }
void* aligned_alloc(size_t align, size_t n) { return fails() ? NULL : __libc_memalign(align, n); }
int posix_memalign(void** p, size_t align, size_t n) {
  if (fails()) return ENOMEM;
  *p = __libc_memalign(align, n);
  return *p ? 0 : ENOMEM;
}

void* mmap(void* where, size_t n, int protection, int flags, int fd, off_t offset) {
  static void* (*real)(void*, size_t, int, int, int, off_t);
  if (!real) real = dlsym(RTLD_NEXT, "mmap");
  return fails() ? MAP_FAILED : real(where, n, protection, flags, fd, offset);
}

static int (*program)(int, char**, char**);

static void ended(void) {
  counting = 0;
  if (at || !log_file) return;
  char text[32];
  const int n = snprintf(text, sizeof text, "%ld\n", atomic_load(&calls));
  const int fd = open(log_file, O_WRONLY | O_CREAT, 0666);
  if (fd < 0 || write(fd, text, (size_t)n) != n) _exit(99);
  close(fd);
}

static int counted(int argc, char** argv, char** environment) {
  const char* const k = getenv("ALLOCATION_FAULT_AT");
  const char* const all = getenv("ALLOCATION_FAULT_ONWARD");
  at = k ? atol(k) : 0;
  onward = all && atoi(all);
  log_file = getenv("ALLOCATION_FAULT_LOG");
  void* warm[1];
  backtrace(warm, 1);  // loads libgcc, which allocates
  counting = 1;
  const int code = program(argc, argv, environment);
  ended();
  return code;
}

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void* stack_end) {
  int (*real)(int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void), void (*)(void), void*) =
      dlsym(RTLD_NEXT, "__libc_start_main");
  program = main;
  return real(counted, argc, argv, init, fini, rtld_fini, stack_end);
}
