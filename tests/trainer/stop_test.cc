// Stop signals, in child processes that report through their exit status.
#include "trainer/loop/stop.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

using namespace amp;

namespace {
int in_child(const std::function<int()>& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int s : kStopSignals) ::signal(s, SIG_DFL);  // the test runner has its own handlers
    ::_exit(f());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
std::string name_of(int signal) { return ::sigabbrev_np(signal); }
}  // namespace

TEST_CASE("the first signal is noted and the work goes on") {
  for (const int s : kStopSignals) {
    CHECK(in_child([&] {
            const StopSignals stop;
            if (stop.requested() || !signal_name(stop.signal()).empty()) return 1;
            ::raise(s);
            return stop.requested() && stop.signal() == s && signal_name(stop.signal()) == "SIG" + name_of(s) ? 75 : 2;
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
  CHECK(twice(SIGUSR1, SIGTERM, later) == 143);  // two signals of a batch system: a warning, then the time limit
  CHECK(twice(SIGXCPU, SIGXCPU, later) == 75);   // the kernel repeats SIGXCPU every second
  CHECK(twice(SIGTERM, SIGTERM, 0) == 75);       // the copy that timeout(1) sends to the process group
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
          const StopSignals again;  // must start without a pending stop
          return again.requested() ? 1 : 0;
        }) == 0);
}

TEST_CASE("before there is anything to finish the first signal ends the process, and says so on the last line") {
  for (const int s : kStopSignals) {
    for (const bool durable : {false, true}) {
      int err[2];
      REQUIRE(::pipe(err) == 0);
      const int code = in_child([&] {
        ::dup2(err[1], STDERR_FILENO);
        const ImmediateStop stop("continue with --resume auto");  // as the program's main()
        if (durable) ImmediateStop::durable();
        ::raise(s);
        return 0;
      });
      ::close(err[1]);
      char text[1024] = {};
      REQUIRE(::read(err[0], text, sizeof text - 1) > 0);
      ::close(err[0]);
      CHECK(code == (durable ? 75 : 128 + s));
      const std::string said = text;
      const size_t line = said.rfind('{');
      REQUIRE(line != std::string::npos);
      const auto j = nlohmann::json::parse(said.substr(line));
      CHECK(j["id"] == (durable ? "E_STOPPED" : "E_INTERRUPTED"));
      CHECK(j["exit"] == code);
      CHECK_THAT(j["error"].get<std::string>(), Catch::Matchers::StartsWith("stopped by SIG" + name_of(s)));
      CHECK((j["hint"].get<std::string>().find("--resume auto") != std::string::npos) == durable);
    }
  }
}

TEST_CASE("inside, a loop that polls; a signal that is ignored stays so") {
  CHECK(in_child([] {
          const ImmediateStop outer;
          {
            const StopSignals stop;
            ::raise(SIGTERM);
            if (!stop.requested()) return 1;
          }
          return 75;
        }) == 75);
  CHECK(in_child([] {
          ::signal(SIGHUP, SIG_IGN);  // as nohup does
          const ImmediateStop outer;
          const StopSignals stop;
          ::raise(SIGHUP);
          return stop.requested() ? 1 : 5;
        }) == 5);
}

TEST_CASE("equal limits of CPU time leave seconds between SIGXCPU and SIGKILL") {
  // Returns the soft limit, in seconds, after an ImmediateStop was created under limits as `ulimit -t` and `ulimit -S
  // -t` set them.
  const auto soft_after = [](rlim_t soft, rlim_t hard) {
    return in_child([&] {
      const struct rlimit r = {soft, hard};
      if (::setrlimit(RLIMIT_CPU, &r) != 0) return 254;
      const ImmediateStop stop;
      struct rlimit now;
      return ::getrlimit(RLIMIT_CPU, &now) == 0 && now.rlim_max == hard ? static_cast<int>(now.rlim_cur) : 255;
    });
  };
  CHECK(soft_after(200, 200) == 180);
  CHECK(soft_after(5, 5) == 4);
  CHECK(soft_after(90, 100) == 90);
  CHECK(soft_after(250, RLIM_INFINITY) == 250);
}
