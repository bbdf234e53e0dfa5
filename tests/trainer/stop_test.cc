// Stop signals, in child processes that report through their exit status.
#include "trainer/stop.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <functional>

using namespace amp;

namespace {
int in_child(const std::function<int()>& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int s : {SIGINT, SIGTERM}) ::signal(s, SIG_DFL);  // the test runner has handlers of its own
    ::_exit(f());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
}  // namespace

TEST_CASE("the first signal is noted and the work goes on") {
  for (const int s : {SIGINT, SIGTERM}) {
    CHECK(in_child([&] {
            const StopSignals stop;
            if (stop.requested() || !stop.name().empty()) return 1;
            ::raise(s);
            return stop.requested() && stop.signal() == s && stop.name() == (s == SIGINT ? "SIGINT" : "SIGTERM") ? 75
                                                                                                                 : 2;
          }) == 75);
  }
}

TEST_CASE("a second signal ends the process at once with 128 and its number") {
  const auto twice = [](int first, int second, long milliseconds) {
    return in_child([&] {
      const StopSignals stop;
      ::raise(first);
      ::usleep(static_cast<useconds_t>(milliseconds) * 1000);
      ::raise(second);
      return 75;
    });
  };
  const long later = StopSignals::kEchoMilliseconds + 20;
  CHECK(twice(SIGINT, SIGINT, later) == 130);
  CHECK(twice(SIGTERM, SIGTERM, later) == 143);
  CHECK(twice(SIGINT, SIGTERM, later) == 143);
  CHECK(twice(SIGTERM, SIGTERM, 0) == 75);  // the copy that timeout(1) sends to the process group
}

TEST_CASE("without the object, and after it, signals do what they did") {
  CHECK(in_child([] {
          { const StopSignals stop; }
          ::raise(SIGTERM);
          return 0;
        }) == -SIGTERM);
  CHECK(in_child([] {
          const StopSignals stop({SIGUSR1});
          ::raise(SIGTERM);
          return 0;
        }) == -SIGTERM);
  CHECK(in_child([] {
          ::signal(SIGINT, SIG_IGN);
          { const StopSignals stop; }
          ::raise(SIGINT);
          return 7;
        }) == 7);
  CHECK(in_child([] {
          {
            const StopSignals stop;
            ::raise(SIGINT);
          }
          const StopSignals again;  // starts clean
          return again.requested() ? 1 : 0;
        }) == 0);
}
