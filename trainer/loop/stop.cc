// Signal handlers may call only async-signal-safe functions. Therefore messages are built in a fixed buffer, state is
// in lock-free atomics, and the process ends with _exit().

#include "trainer/loop/stop.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/activity.h"
#include "base/colors.h"
#include "base/error.h"
#include "base/message.h"
#include "base/temporary.h"

namespace amp {

namespace {
// Handlers have no argument but the signal number, so their state is global.
std::atomic<int> first_signal{0};
std::atomic<long> first_time{0};
std::atomic<bool> installed{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<long>::is_always_lock_free);

long milliseconds() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<long>(t.tv_sec) * 1000 + t.tv_nsec / 1000000;
}

extern "C" void amp_on_stop_signal(int number) {
  const int kept = errno;
  int none = 0;
  if (first_signal.compare_exchange_strong(none, number)) {
    first_time = milliseconds();
  } else if (number != SIGXCPU && milliseconds() - first_time >= StopSignals::kEchoMilliseconds) {
    remove_temporaries();
    log_stopped(number, false);
    ::_exit(128 + number);
  }
  errno = kept;
}

std::atomic<const char*> hint_to_resume{"continue with `resume` auto"};
std::atomic<bool> all_durable{false}, one_of_several{false};
std::atomic<int> immediate{0};

constexpr long kLaunchedMicroseconds = 300'000;  // well below the second after which OpenMPI sends SIGKILL

extern "C" void amp_on_immediate_stop(int number) {
  if (number != SIGALRM && one_of_several.exchange(false)) {
    immediate = number;
    const itimerval once = {{0, 0}, {0, kLaunchedMicroseconds}};
    if (::setitimer(ITIMER_REAL, &once, nullptr) == 0) return;  // SIGALRM runs the handler again
  }
  if (number == SIGALRM) number = immediate;
  ImmediateStop::obey(number, false);
}

bool ignored(int number) {
  struct sigaction now = {};
  return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

// Builds text without heap allocation.
struct Line {
  char text[768];
  size_t size = 0;
  void add(const char* s) {
    for (; *s && size < sizeof text; ++s) text[size++] = *s;
  }
  void add(int n) {
    char digits[12];
    int i = 0;
    do digits[i++] = static_cast<char>('0' + n % 10);
    while (n /= 10);
    while (i > 0 && size < sizeof text) text[size++] = digits[--i];
  }
};

// Adds a signal's name. sigabbrev_np() only indexes a table (glibc documents it as async-signal-safe).
void add_signal(Line& line, int number) {
  const char* const abbreviation = ::sigabbrev_np(number);
  line.add(abbreviation ? "SIG" : "a signal");
  if (abbreviation) line.add(abbreviation);
}

// Sets the soft limit of CPU time below the hard one. The kernel checks the hard limit first, so SIGXCPU is only sent
// if the soft limit is lower. The distance is the time for the current step and its checkpoint.
void separate_cpu_limits() {
  constexpr rlim_t kMost = 60;
  struct rlimit r;
  if (::getrlimit(RLIMIT_CPU, &r) != 0 || r.rlim_cur != r.rlim_max) return;
  if (r.rlim_max == RLIM_INFINITY || r.rlim_max < 2) return;
  r.rlim_cur -= std::clamp<rlim_t>(r.rlim_max / 10, 1, kMost);
  ::setrlimit(RLIMIT_CPU, &r);
}
}  // namespace

int stopped_exit(int signal, bool durable) {
  return durable || signal == 0 ? static_cast<int>(Exit::stopped) : 128 + signal;
}

void log_stopped(int signal, bool durable) {
  const char* const fact = durable ? "; a checkpoint contains all completed work" : " before its work was done";
  const char* const hint = durable
                               ? hint_to_resume.load()
                               : "start again; files that were written before, also earlier checkpoints, are unchanged";
  Line line;
  // If the terminal shows a status line (an activity), it is erased. Else the message starts below
  // "^C" or the progress bar.
  line.add(activity_is_shown() ? "\r\x1b[K" : "\n");
  line.add(ink(Ink::error));
  line.add("error:");
  line.add(ink(Ink::none));
  line.add(" stopped by ");
  add_signal(line, signal);
  line.add(fact);
  line.add("\n  hint: ");
  line.add(hint);
  line.add("\n");
  const size_t for_people = line.size;
  const int code = stopped_exit(signal, durable);
  line.add("{\"id\":\"");
  line.add(code == static_cast<int>(Exit::stopped) ? "E_STOPPED" : "E_INTERRUPTED");
  line.add("\",\"exit\":");
  line.add(code);
  line.add(",\"error\":\"stopped by ");
  add_signal(line, signal);
  line.add(fact);
  line.add("\",\"where\":\"\",\"hint\":\"");
  line.add(hint);
  line.add("\"}\n");
  const size_t begin = errors_are_text() ? 0 : for_people, end = errors_are_json() ? line.size : for_people;
  if (::write(STDERR_FILENO, line.text + begin, end - begin) < 0) return;  // stderr is closed
}

ImmediateStop::ImmediateStop(const char* resume_hint) {
  hint_to_resume = resume_hint;
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  separate_cpu_limits();
  struct sigaction action = {};
  action.sa_handler = amp_on_immediate_stop;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (const int s : kStopSignals) ::sigaddset(&action.sa_mask, s);
  for (const int s : kStopSignals) {
    if (!ignored(s)) ::sigaction(s, &action, nullptr);
  }
}

void ImmediateStop::launched() {
  struct sigaction action = {};
  action.sa_handler = amp_on_immediate_stop;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGALRM, &action, nullptr);
  one_of_several = true;
}

int ImmediateStop::asked() { return immediate; }

void ImmediateStop::obey(int signal, bool quietly) {
  const bool durable = all_durable;
  remove_temporaries();
  if (!quietly) log_stopped(signal, durable);
  ::_exit(stopped_exit(signal, durable));
}

void ImmediateStop::durable() { all_durable = true; }

StopSignals::StopSignals(std::vector<int> signals) : installed_(!signals.empty()), signals_(std::move(signals)) {
  if (!installed_) return;
  check(!installed.exchange(true), "StopSignals: there is one already");
  first_signal = 0;
  struct sigaction action = {};
  action.sa_handler = amp_on_stop_signal;
  action.sa_flags = SA_RESTART;  // so that system calls of a checkpoint in progress are not interrupted
  ::sigemptyset(&action.sa_mask);
  for (const int s : signals_) ::sigaddset(&action.sa_mask, s);
  signals_.erase(std::remove_if(signals_.begin(), signals_.end(), ignored), signals_.end());
  for (const int s : signals_) {
    former_.emplace_back();
    check(::sigaction(s, &action, &former_.back()) == 0, "StopSignals: a signal cannot be handled");
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < former_.size(); ++i) ::sigaction(signals_[i], &former_[i], nullptr);
  if (installed_) installed = false;
}

int StopSignals::signal() const { return installed_ ? first_signal.load() : 0; }

std::string signal_name(int signal) {
  const char* abbreviation = ::sigabbrev_np(signal);
  return abbreviation ? cat("SIG", abbreviation) : "";
}

}  // namespace amp
