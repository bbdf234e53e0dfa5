// Tests failure detection between processes. In this test the ranks are threads with separate connections; one of them
// stops sending heartbeats, fails or disconnects.
#include "trainer/comm/failure_detector.h"

#include <unistd.h>

#include <atomic>
#include <catch2/catch_all.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/steady_seconds.h"
#include "trainer/comm/connections.h"

using namespace amp;

namespace {

struct Told {
  std::string fact;
  bool speaks = false;
  double after = 0;  // seconds
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Processes {
  explicit Processes(int size, double heartbeat_timeout)
      : group(size), told(static_cast<size_t>(size)), channels(told.size()) {
    std::vector<std::thread> threads;
    for (int r = 0; r < size; ++r) {
      threads.emplace_back([this, r, heartbeat_timeout] {
        Told& mine = told[static_cast<size_t>(r)];
        const auto report = [this, &mine](const Error&) {
          const std::lock_guard lock(mutex);
          mine.speaks = true;
        };
        const auto end_process = [this, &mine](const Error& e) {
          const std::lock_guard lock(mutex);
          CHECK(e.exit() == Exit::distributed);
          CHECK(e.id() == "E_RANK_LOST");
          mine.fact = e.fact();
          mine.after = seconds() - began;
        };
        channels[static_cast<size_t>(r)] = std::make_unique<FailureDetector>(
            group.rank(r), RankAccess{}, heartbeat_timeout, FailureDetector::OnLost{report, end_process});
      });
    }
    for (std::thread& t : threads) t.join();
    began = seconds();
  }
  // Returns the notifications that the ranks receive within this many seconds, in the order of the ranks.
  std::vector<Told> after(double wait, size_t expected) {
    for (const double until = seconds() + wait; seconds() < until;) {
      {
        const std::lock_guard lock(mutex);
        size_t n = 0;
        for (const Told& t : told) n += !t.fact.empty();
        if (n >= expected) break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    const std::lock_guard lock(mutex);
    return told;
  }

  ThreadGroup group;
  std::mutex mutex;
  std::vector<Told> told;
  double began = 0;
  std::vector<std::unique_ptr<FailureDetector>> channels;
};

size_t speakers(const std::vector<Told>& told) {
  size_t n = 0;
  for (const Told& t : told) n += t.speaks;
  return n;
}

}  // namespace

TEST_CASE("a process that goes away is named to all others at once", "[ranks][failure_detector]") {
  const int gone = GENERATE(0, 1, 3);
  Processes p(4, 60);
  p.channels[static_cast<size_t>(gone)]->doing(41, "evaluation");
  std::this_thread::sleep_for(std::chrono::milliseconds(700));  // until a heartbeat has reported this phase
  p.channels[static_cast<size_t>(gone)].reset();                // closes its connections without a message
  const std::vector<Told> told = p.after(10, 3);
  const std::string fact = cat("rank ", gone, " (host ", this_process(0).host, ", process ", ::getpid(), ") is gone");
  for (int r = 0; r < 4; ++r) {
    if (r == gone) continue;
    INFO(r);
    CHECK_THAT(told[static_cast<size_t>(r)].fact, Catch::Matchers::StartsWith(fact));
    CHECK_THAT(told[static_cast<size_t>(r)].fact, Catch::Matchers::ContainsSubstring("step 41, evaluation"));
  }
  CHECK(told[static_cast<size_t>(gone)].fact.empty());
  CHECK(speakers(told) == 1);
}

TEST_CASE("a process that fails is quoted, after time for those that fail likewise", "[ranks][failure_detector]") {
  Processes p(3, 60);
  p.channels[2]->failed("E_CSV: a quote that is not closed");
  p.channels[1]->failed("E_CSV: a quote that is not closed");
  const std::vector<Told> told = p.after(10, 1);
  CHECK_THAT(told[0].fact, Catch::Matchers::ContainsSubstring("failed at step 0, starting"));
  CHECK_THAT(told[0].fact, Catch::Matchers::EndsWith("its last error: E_CSV: a quote that is not closed"));
  CHECK(told[0].after >= 0.4);
  CHECK(told[1].fact.empty());  // rank 1 reports its error itself
  CHECK(told[2].fact.empty());
}

TEST_CASE("processes that need each other no more disconnect without an error", "[ranks][failure_detector]") {
  Processes p(3, 60);
  for (auto& c : p.channels) c->end();
  for (auto& c : p.channels) c.reset();
  CHECK(speakers(p.after(0.5, 3)) == 0);
  for (const Told& t : p.told) CHECK(t.fact.empty());
}

TEST_CASE("strangers do not keep processes from their heartbeats", "[ranks][failure_detector]") {
  ThreadGroup group(3);
  const RankAccess access{"token"};
  std::vector<Connected> leader, second;
  std::thread first([&] { leader = connect_ranks(group.rank(0), access, 60); });
  std::thread other([&] { second = connect_ranks(group.rank(1), access, 60); });
  // Rank 2 receives the port as in connect_ranks().
  Communicator& me = group.rank(2);
  std::string identity, text;
  me.broadcast(identity, 0);
  double elsewhere[] = {0};
  me.all_reduce(std::span<double>(elsewhere), Reduction::max);
  me.broadcast(text, 0);
  const nlohmann::json contact = nlohmann::json::parse(text);
  const int port = contact.at("port");
  const std::string purpose = cat("heartbeats, ", contact.at("secret").get<std::string>());
  const nlohmann::json hello{{"rank", 2}, {"host", "h"}, {"pid", 7}};
  std::vector<Socket> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(dial("127.0.0.1", port, 10));
  const double before = seconds(), until = steady_seconds() + 60;
  nlohmann::json answer;
  for (const std::string token : {"another", ""}) {
    const Socket s = dial("127.0.0.1", port, 10);
    Handshake handshake(handshake_key({token}, purpose));
    CHECK(handshake.send_hello(s.descriptor(), hello, until) == FrameResult::frame);
    CHECK(handshake.read_answer(s.descriptor(), answer, until) == FrameResult::unproven);
  }
  const Socket mine = dial("127.0.0.1", port, 10);
  Handshake handshake(handshake_key(access, purpose));
  CHECK(handshake.send_hello(mine.descriptor(), hello, until) == FrameResult::frame);
  CHECK(handshake.read_answer(mine.descriptor(), answer, until) == FrameResult::frame);
  first.join();
  other.join();
  CHECK(seconds() - before < 4);  // a silent connection is closed after 5 s
  REQUIRE(leader.size() == 2);
  CHECK(leader[1].process.text() == "rank 2 (host h, process 7)");
}

TEST_CASE("processes with different tokens have no heartbeats and say so", "[ranks][failure_detector]") {
  ThreadGroup group(2);
  std::vector<std::string> errors(2);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < errors.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        connect_ranks(group.rank(static_cast<int>(r)), RankAccess{r == 0 ? "one" : "another"}, 5);
      } catch (const Error& e) {
        errors[r] = cat(e.id(), ": ", e.fact());
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK_THAT(errors[0], Catch::Matchers::StartsWith("E_RANK_LOST: the ranks do not reach each other: 1 of 1 did not"));
  CHECK_THAT(errors[0], Catch::Matchers::ContainsSubstring(" without the run's token"));
  CHECK_THAT(errors[1], Catch::Matchers::StartsWith("E_RANKS: the tokens differ: "));
}
