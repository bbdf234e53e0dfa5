// Starts this program once per GPU with torchrun's environment variables and a random token, and waits. Only the first
// rank writes to this process's standard error. The standard error of other ranks goes to memory files, which are
// printed if the first rank does not report the failure. If this process dies, the ranks receive a signal.
#include "tools/start_ranks.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "run/spec/spec.h"
#include "run/train/process_ranks.h"
#include "run/train/stop.h"

namespace amp {

namespace {

[[noreturn]] void cannot(const std::string& what) {
  fail(Exit::distributed, "E_RANKS", cat("cannot start the ranks: ", what, ": ", std::strerror(errno)),
       "start them by mpirun or torchrun's variables (docs/scaling.md)");
}

std::vector<std::string> own_arguments() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> out;
  for (std::string word; std::getline(in, word, '\0');) out.push_back(word);
  return out;
}

class Ranks {
 public:
  Ranks(int count, const DistributionSpec& spec) : connect_timeout_(spec.heartbeat + 5) {
    ::sigaddset(&waited_, SIGCHLD);
    for (const int s : kStopSignals) ::sigaddset(&waited_, s);
    ::sigprocmask(SIG_BLOCK, &waited_, &before_);
    const int free = free_port();
    if (free == 0) cannot("no free port");
    share_token(spec);
    const std::string port = std::to_string(free), size = std::to_string(count);
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency() / static_cast<unsigned>(count));
    for (int r = 0; r < count; ++r) {
      const std::string rank = std::to_string(r);
      for (const auto& [name, value] : {std::pair<const char*, std::string>{"RANK", rank},
                                        {"LOCAL_RANK", rank},
                                        {"WORLD_SIZE", size},
                                        {"LOCAL_WORLD_SIZE", size},
                                        {"MASTER_ADDR", "127.0.0.1"},
                                        {"MASTER_PORT", port}})
        ::setenv(name, value.c_str(), 1);
      ::setenv("OMP_NUM_THREADS", std::to_string(cores).c_str(), 0);
      start();
    }
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks() {
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    for (const Rank& r : ranks_) ::close(r.stderr_file);
  }

  int wait() {
    while (running() > 0) {
      siginfo_t signal = {};
      const timespec second{1, 0};
      const int number = ::sigtimedwait(&waited_, &signal, &second);
      reap();
      // The terminal has already sent its signals to the ranks too, so only other signals are passed on.
      if (number > 0 && number != SIGCHLD && signal.si_code != SI_KERNEL && ranks_[0].process > 0)
        ::kill(ranks_[0].process, number);
      if (failed_at_ > 0 && now() - failed_at_ > connect_timeout_) {
        for (const Rank& r : ranks_) {
          if (r.process > 0) ::kill(r.process, SIGKILL);
        }
      }
    }
    if (ranks_[0].code == 0 || ranks_[0].code == kLost) print_failed_rank();
    return code_ != 0 ? code_ : lost_;
  }

 private:
  static constexpr int kLost = static_cast<int>(Exit::distributed);
  struct Rank {
    pid_t process = 0;     // process id; 0: the process has ended
    int stderr_file = -1;  // file with its standard error; -1: the first rank, which writes to this process's
    int code = 0;
  };

  // Gives the ranks a random token, unless the user chose one. The token is passed in the environment, because other
  // users can read a process's command line but not its environment.
  static void share_token(const DistributionSpec& spec) {
    if (!rank_token(spec.rank_token_file).empty()) return;
    const std::string token = random_rank_token();
    if (token.empty()) cannot("no random numbers");
    ::setenv(kRankTokenVariable, token.c_str(), 1);
  }

  // Prints the messages of the first rank that failed by itself (not because of another rank), if rank 0 does not
  // report that error.
  void print_failed_rank() const {
    const auto failed =
        std::find_if(ranks_.begin() + 1, ranks_.end(), [](const Rank& r) { return r.code != 0 && r.code != kLost; });
    if (failed == ranks_.end() || ::lseek(failed->stderr_file, 0, SEEK_SET) != 0) return;
    char buffer[4096];
    for (ssize_t n; (n = ::read(failed->stderr_file, buffer, sizeof buffer)) > 0;) std::cerr.write(buffer, n);
  }

  static double now() {
    timespec t;
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  }

  void start() {
    std::vector<char*> arguments;
    for (std::string& a : arguments_) arguments.push_back(a.data());
    arguments.push_back(nullptr);
    Rank rank;
    if (!ranks_.empty() && (rank.stderr_file = ::memfd_create("stderr", MFD_CLOEXEC)) < 0)
      cannot("memory for messages");
    rank.process = ::fork();
    if (rank.process < 0) cannot("fork");
    if (rank.process == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      // The rank's standard error is a file. It is printed on this process's standard error.
      if (!errors_are_json()) set_log_format(LogFormat::text);
      if (rank.stderr_file >= 0) ::dup2(rank.stderr_file, STDERR_FILENO);
      ::sigprocmask(SIG_SETMASK, &before_, nullptr);
      ::execv("/proc/self/exe", arguments.data());
      ::_exit(static_cast<int>(Exit::distributed));
    }
    ranks_.push_back(rank);
  }

  int64_t running() const {
    return std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.process > 0; });
  }

  void reap() {
    int status = 0;
    for (pid_t p; (p = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto at = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& r) { return r.process == p; });
      if (at == ranks_.end()) continue;
      at->process = 0;
      at->code = WIFEXITED(status) ? WEXITSTATUS(status) : kLost;
      if (at->code == 0) continue;
      if (failed_at_ == 0) failed_at_ = now();
      int& kept = at->code == kLost ? lost_ : code_;
      if (kept == 0) kept = at->code;
    }
  }

  std::vector<std::string> arguments_ = own_arguments();
  const double connect_timeout_;  // in seconds
  sigset_t waited_{}, before_{};
  std::vector<Rank> ranks_;
  double failed_at_ = 0;
  int code_ = 0, lost_ = 0;
};

}  // namespace

std::optional<int> start_ranks(const RunSpec& spec) {
  const auto count = static_cast<int>(split(spec.distribution.gpus, ',').size());
  if (spec.distribution.gpus.empty() || count < 2 || launched()) return std::nullopt;
  return Ranks(count, spec.distribution).wait();
}

}  // namespace amp
