/* Functions and variables that objects compiled with a newer glibc refer to and that glibc 2.31 lacks. They are linked
   into the released program only (packaging/release.sh), and are hidden, so that no other library binds to them. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

/* glibc 2.32: true while the process has one thread; libstdc++ then counts references without atomic operations. False
   is correct for any number of threads. */
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

/* glibc 2.32: returns "TERM" for SIGTERM, null for a number that is no signal; real-time signals have no names. */
__attribute__((visibility("hidden"))) const char* sigabbrev_np(int number) {
  static const char* const names[] = {
      [SIGHUP] = "HUP",     [SIGINT] = "INT",   [SIGQUIT] = "QUIT", [SIGILL] = "ILL",       [SIGTRAP] = "TRAP",     [SIGABRT] = "ABRT",
      [SIGBUS] = "BUS",     [SIGFPE] = "FPE",   [SIGKILL] = "KILL", [SIGUSR1] = "USR1",     [SIGSEGV] = "SEGV",     [SIGUSR2] = "USR2",
      [SIGPIPE] = "PIPE",   [SIGALRM] = "ALRM", [SIGTERM] = "TERM", [SIGSTKFLT] = "STKFLT", [SIGCHLD] = "CHLD",     [SIGCONT] = "CONT",
      [SIGSTOP] = "STOP",   [SIGTSTP] = "TSTP", [SIGTTIN] = "TTIN", [SIGTTOU] = "TTOU",     [SIGURG] = "URG",       [SIGXCPU] = "XCPU",
      [SIGXFSZ] = "XFSZ",   [SIGPROF] = "PROF", [SIGWINCH] = "WINCH", [SIGIO] = "POLL",     [SIGPWR] = "PWR",       [SIGSYS] = "SYS",
      [SIGVTALRM] = "VTALRM"};
  return number > 0 && (size_t)number < sizeof names / sizeof *names ? names[number] : NULL;
}

/* glibc 2.36: writes random bytes; never fails. */
__attribute__((visibility("hidden"))) void arc4random_buf(void* to, size_t bytes) {
  size_t have = 0;
  while (have < bytes) {
    const ssize_t got = getrandom((char*)to + have, bytes - have, 0);
    if (got > 0) have += (size_t)got;
    if (got < 0 && errno != EINTR) abort();
  }
}

/* Returns a random number; called by libstdc++'s std::random_device. */
__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t value;
  arc4random_buf(&value, sizeof value);
  return value;
}
