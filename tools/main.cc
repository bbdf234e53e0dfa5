// The program onnx-amp-finetune, which fine-tunes ONNX models in mixed precision. main() prepares the process (OpenMP,
// signals, ranks), parses the command line and runs the verbs of its commands.
#include <omp.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <vector>

#include "base/message.h"
#include "run/train/stop.h"
#include "tools/cli/error_line.h"
#include "tools/cli/options.h"
#include "tools/cli/terminal.h"
#include "tools/run_verb.h"
#include "tools/spec_of.h"
#include "tools/start_ranks.h"

namespace {

// Restores the process's CPU affinity. With OMP_PROC_BIND or OMP_PLACES, OpenMP has bound this thread to its first
// place. A program started from this thread would inherit only the CPUs of that place.
void unbind() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> ids(static_cast<size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, ids.data());
    for (const int id : ids) CPU_SET(id, &all);
  }
  if (CPU_COUNT(&all) > 0) sched_setaffinity(0, sizeof all, &all);
}

constexpr rlim_t kStack = 8 << 20;         // bytes of stack of a thread, Linux's default
constexpr rlim_t kLeastStack = 256 << 10;  // a small model can be trained with 96 KiB; with 64 KiB it crashes

// Raises the process's stack limit (ulimit -s) if it is below kLeastStack. Returns whether it did. The stacks of
// threads that already run keep their size.
bool raise_stack_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeastStack) return false;
  limit.rlim_cur = std::min(limit.rlim_max, kStack);
  return limit.rlim_cur >= kLeastStack && setrlimit(RLIMIT_STACK, &limit) == 0;
}

// Throws E_STACK (Exit::memory) if the stack limit is too small and could not be raised.
void require_stack() {
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeastStack) return;
  amp::fail(amp::Exit::memory, "E_STACK",
            amp::cat("the stack of a thread is limited to ", limit.rlim_cur >> 10, " KiB, and ", kLeastStack >> 10,
                     " KiB are needed"),
            "set a larger limit before you start the program: ulimit -s 8192");
}

// Restarts the program if a setting must be in place before main(), because GNU's OpenMP reads it earlier. There are
// two:
// * a stack limit that was too small;
// * a short spinning time of idle threads. By default they spin for milliseconds. On a shared machine a spinning thread
//   delays the thread that it waits for.
void restart_prepared(char** argv) {
  const bool raised = raise_stack_limit();
  const bool spins = !std::getenv("GOMP_SPINCOUNT") && !std::getenv("OMP_WAIT_POLICY");
  if (!raised && !spins) return;
  if (spins) setenv("GOMP_SPINCOUNT", "1000", 1);
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return;
  unbind();
  execv(self.c_str(), argv);  // execv() returns only if it failed; the program then continues without the restart
}

bool trains(const amp::cli::Options& opts) {
  return opts.verb == amp::cli::Verb::train && !opts.flag("dry_run") && !opts.flag("check_data");
}

// Returns whether the process that reads standard output has closed the pipe, as `head` does.
bool reader_left() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

// Checks that standard output was written, because it is the result of all verbs except train (whose result is its
// folder). If the reading process has closed the pipe early, that is not an error.
void check_printed(amp::cli::Verb verb) {
  errno = 0;
  std::cout.flush();
  if (std::cout || reader_left()) return;
  const std::string fact =
      amp::cat("cannot write the standard output", errno ? amp::cat(": ", std::strerror(errno)) : std::string());
  if (verb == amp::cli::Verb::train) {
    amp::print_message(amp::Level::warning, fact + "; the run's folder is complete");
  } else {
    amp::fail(amp::Exit::storage, "E_WRITE", fact,
              "files that the command names are complete; --out FILE writes a file instead");
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace amp;
  cli::report_termination();
  restart_prepared(argv);
  const ImmediateStop stop("continue with --resume auto");
  cli::apply_log_format(argc, argv);
  return cli::guarded(std::cerr, [&] {
    require_stack();
    int code = 0;
    const std::vector<cli::Command> commands = cli::parse_commands(argc, argv, environ);
    cli::apply_log_format(commands[0].options.str("log_format"));
    if (commands.size() == 1 && trains(commands[0].options)) {
      if (const std::optional<int> ended = start_ranks(spec_of(commands[0].options))) return *ended;
    }
    for (const cli::Command& command : commands) {
      code = run_command(command);
      check_printed(command.options.verb);
      if (code != 0) break;
    }
    return code;
  });
}
