// Starts the runs of a sweep by fork and exec of this program. There are no signal handlers: wait() waits for signals,
// so one place handles both a stop signal and the end of a process. The processes belong to the process group of this
// process: a signal from the terminal reaches them directly, and other signals are passed on.
#include "tools/sweep_processes.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "run/train/stop.h"

namespace amp {

SweepProcesses::SweepProcesses(int64_t jobs) {
  ::sigemptyset(&waited_);
  ::sigaddset(&waited_, SIGCHLD);
  for (const int s : kStopSignals) ::sigaddset(&waited_, s);
  ::sigprocmask(SIG_BLOCK, &waited_, &before_);
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency() / static_cast<unsigned>(jobs));
  if (jobs > 1 && !std::getenv("OMP_NUM_THREADS")) threads_ = std::to_string(cores);
}

SweepProcesses::~SweepProcesses() {
  for (const Child& c : children_) ::kill(c.process, SIGTERM);
  for (const Child& c : children_) ::waitpid(c.process, nullptr, 0);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

void SweepProcesses::start(size_t run, const std::vector<std::string>& words, const std::string& log) {
  const auto cannot = [](const std::string& what) {
    fail(Exit::storage, "E_SWEEP_START", cat("cannot start a run: ", what, ": ", std::strerror(errno)),
         "free space or processes, then continue with `resume` auto");
  };
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (out < 0) cannot(log);
  std::vector<std::string> kept{"onnx-amp-finetune"};
  kept.insert(kept.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& w : kept) arguments.push_back(w.data());
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(static_cast<int>(Exit::stopped));  // the parent ended before prctl()
    const int none = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(none, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    if (!threads_.empty()) ::setenv("OMP_NUM_THREADS", threads_.c_str(), 1);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    ::execv("/proc/self/exe", arguments.data());
    ::_exit(static_cast<int>(Exit::internal));
  }
  ::close(out);
  if (process < 0) cannot("fork");
  children_.push_back({process, run});
}

std::vector<SweepProcesses::Ended> SweepProcesses::wait(double seconds) {
  siginfo_t signal = {};
  const double whole = std::floor(seconds);
  const timespec time{static_cast<time_t>(whole), static_cast<long>((seconds - whole) * 1e9)};
  const int number = ::sigtimedwait(&waited_, &signal, &time);
  if (number > 0 && number != SIGCHLD) {
    if (stop_signal_ == 0) stop_signal_ = number;
    if (signal.si_code != SI_KERNEL) {  // the terminal sends its signals to these processes too
      for (const Child& c : children_) ::kill(c.process, number);
    }
  }
  std::vector<Ended> out;
  for (auto c = children_.begin(); c != children_.end();) {
    int status = 0;
    if (::waitpid(c->process, &status, WNOHANG) != c->process) {
      ++c;
      continue;
    }
    const int by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    out.push_back({c->run, by != 0 ? 128 + by : WEXITSTATUS(status), by});
    c = children_.erase(c);
  }
  return out;
}

void SweepProcesses::stop(size_t run) const {
  for (const Child& c : children_) {
    if (c.run == run) ::kill(c.process, SIGTERM);
  }
}

}  // namespace amp
