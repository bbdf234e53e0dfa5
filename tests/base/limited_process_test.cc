#include "base/limited_process.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <csignal>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support.h"

using namespace amp;
using Outcome = LimitedProcess::Outcome;

namespace {

// Recurses 2^30 levels.
int deeper(int level) {
  volatile char here[4096];
  here[0] = 'a';
  return level == 0 ? 0 : deeper(level - 1) + here[0];
}

std::string fill_memory(std::string_view) {
  const std::string large(size_t{1} << 33, 'x');
  return large.substr(0, 1);
}

}  // namespace

TEST_CASE("a limited process answers requests in order, and errors with their message") {
  int calls = 0;
  LimitedProcess p([&](std::string_view request) {
    if (request == "no") throw std::runtime_error("not so");
    return std::to_string(++calls) + " " + std::string(request);
  });
  CHECK(p.ask("a").text == "1 a");
  const LimitedProcess::Reply refused = p.ask("no");
  CHECK(refused.outcome == Outcome::refused);
  CHECK(refused.text == "not so");
  CHECK(p.ask("").text == "2 ");
  const std::string large(3 << 20, 'x');  // more than the buffer of a socket holds
  CHECK(p.ask(large).text == "3 " + large);
  CHECK(calls == 0);  // only the child increments its copy of `calls`
}

TEST_CASE("a limited process ends for what exceeds its limits, and says why") {
  ProcessLimits limits;
  limits.seconds = 0.1;
  const auto outcome = [&](const LimitedProcess::Function& f) {
    LimitedProcess p(f, limits);
    const Outcome first = p.ask("a").outcome;
    CHECK(p.ask("a").outcome == Outcome::crashed);
    return first;
  };
  CHECK(outcome([](std::string_view) -> std::string {
          for (std::string s = "a";; s.back() = s.back() == 'a' ? 'b' : 'a') {
          }
        }) == Outcome::time);
  CHECK(outcome([](std::string_view) { return std::string(5 << 20, 'x'); }) == Outcome::reply);
  CHECK(outcome([](std::string_view) { return std::to_string(deeper(1 << 30)); }) == Outcome::crashed);
  CHECK(outcome([](std::string_view) -> std::string { std::abort(); }) == Outcome::crashed);
}

TEST_CASE("a limited process ends for too much memory, and says why") {
  if (const std::string why = test::no_memory_limits(); !why.empty()) SKIP(why);
  ProcessLimits limits;
  limits.seconds = 5;
  LimitedProcess p(fill_memory, limits);
  CHECK(p.ask("a").outcome == Outcome::memory);
  CHECK(p.ask("a").outcome == Outcome::crashed);
}

TEST_CASE("the allowance of a limited process grows with its requests") {
  ProcessLimits limits;
  limits.seconds = 0;
  limits.seconds_per_step = 0.1;
  LimitedProcess p(
      [](std::string_view) {
        const auto end = std::clock() + CLOCKS_PER_SEC / 20;
        while (std::clock() < end) {
        }
        return std::string("done");
      },
      limits);
  // The four requests take 0.2 s in all. Each one allows two steps of 0.1 s.
  for (int i = 0; i < 4; ++i) CHECK(p.ask("a", 2).text == "done");
}

TEST_CASE("the longest reply of a limited process grows with its request") {
  ProcessLimits limits;
  limits.reply = 10;
  limits.reply_per_byte = 2;
  const auto outcome = [&](size_t request, size_t reply) {
    LimitedProcess p([=](std::string_view) { return std::string(reply, 'x'); }, limits);
    return p.ask(std::string(request, 'a')).outcome;
  };
  CHECK(outcome(0, 10) == Outcome::answered);
  CHECK(outcome(0, 11) == Outcome::reply);
  CHECK(outcome(100, 210) == Outcome::answered);
  CHECK(outcome(100, 211) == Outcome::reply);
}

TEST_CASE("a limited process holds no file or lock of its parent, and ignores requests to stop") {
  const test::TempDir dir;
  const std::string path = dir / "lock";
  const int held = ::open(path.c_str(), O_CREAT | O_RDWR, 0600);
  REQUIRE(::flock(held, LOCK_EX) == 0);
  LimitedProcess p([](std::string_view) {
    ::raise(SIGINT);
    ::raise(SIGTERM);
    return std::to_string(::getppid());
  });
  CHECK(p.ask("a").text == std::to_string(::getpid()));
  ::close(held);
  const int again = ::open(path.c_str(), O_RDWR);
  CHECK(::flock(again, LOCK_EX | LOCK_NB) == 0);
  ::close(again);
}

TEST_CASE("limited processes may be started by several threads") {
  std::vector<std::thread> threads;
  std::vector<std::string> replies(4);
  for (size_t t = 0; t < replies.size(); ++t) {
    threads.emplace_back([&replies, t] {
      LimitedProcess p([](std::string_view request) { return std::string(request) + "!"; });
      for (int i = 0; i < 50; ++i) replies[t] = p.ask(std::to_string(t)).text;
    });
  }
  for (std::thread& t : threads) t.join();
  for (size_t t = 0; t < replies.size(); ++t) CHECK(replies[t] == std::to_string(t) + "!");
}
