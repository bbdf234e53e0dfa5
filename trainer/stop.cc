#include "trainer/stop.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/error.h"

namespace amp {

namespace {
// A handler reaches nothing but globals; what it calls must be async-signal-safe: lock-free atomics, clock_gettime,
// _exit.
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
  } else if (milliseconds() - first_time >= StopSignals::kEchoMilliseconds) {
    ::_exit(128 + number);
  }
  errno = kept;
}
}  // namespace

StopSignals::StopSignals(std::vector<int> signals) : signals_(std::move(signals)) {
  check(!installed.exchange(true), "StopSignals: there is one already");
  first_signal = 0;
  struct sigaction action = {};
  action.sa_handler = amp_on_stop_signal;
  action.sa_flags = SA_RESTART;  // a save in progress goes on undisturbed
  ::sigemptyset(&action.sa_mask);
  for (const int s : signals_) ::sigaddset(&action.sa_mask, s);
  for (const int s : signals_) {
    former_.emplace_back();
    check(::sigaction(s, &action, &former_.back()) == 0, "StopSignals: a signal cannot be handled");
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < former_.size(); ++i) ::sigaction(signals_[i], &former_[i], nullptr);
  installed = false;
}

int StopSignals::signal() const { return first_signal.load(); }

std::string StopSignals::name() const {
  const char* abbreviation = requested() ? ::sigabbrev_np(signal()) : nullptr;
  return abbreviation ? cat("SIG", abbreviation) : "";
}

}  // namespace amp
