// Tests processes of one machine that connect by a Unix socket before MPI starts. In this test the processes are
// threads with separate sockets.
#include "trainer/comm/local_rendezvous.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/steady_seconds.h"
#include "tests/trainer/ranked_run.h"

using namespace amp;

namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using nlohmann::json;

std::string new_name() {
  static std::atomic<int> count = 0;
  return cat("onnx-amp-finetune-test.", ::getpid(), ".", ++count);
}

Socket connected_to(const std::string& name) {
  sockaddr_un at = {};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  while (true) {  // rank 0 may not be listening yet
    Socket s(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (::connect(s.descriptor(), reinterpret_cast<const sockaddr*>(&at), size) == 0) return s;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

struct Joined {
  std::string error;
  std::vector<Connected> others;
  std::vector<std::string> notes;
};

Joined join(int rank, int size, const std::string& name, const std::string& token, double connect_timeout) {
  Joined out;
  const RankAccess access{token, Log([&](Level, const std::string& text) { out.notes.push_back(text); })};
  try {
    out.others = rendezvous_on_this_machine({rank, size, name}, access, connect_timeout);
  } catch (const Error& e) {
    out.error = cat(static_cast<int>(e.exit()), ' ', e.id(), ": ", e.fact());
  }
  return out;
}

// Starts ranks with these tokens, after processes that do not belong to the run have connected.
std::vector<Joined> joined(const std::vector<std::string>& tokens, double connect_timeout,
                           const std::function<void(const std::string& name)>& strangers = {}) {
  const std::string name = new_name();
  std::vector<Joined> out(tokens.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < tokens.size(); ++r) {
    threads.emplace_back([&, r] { out[r] = join(int(r), int(tokens.size()), name, tokens[r], connect_timeout); });
    if (r == 0 && strangers) strangers(name);
  }
  for (std::thread& t : threads) t.join();
  return out;
}

}  // namespace

TEST_CASE("processes of one machine connect", "[ranks][local_rendezvous]") {
  const std::vector<Joined> ranks = joined({"t", "t", "t"}, 60);
  for (const Joined& r : ranks) {
    CHECK(r.error == "");
    CHECK(r.notes.empty());
  }
  REQUIRE(ranks[0].others.size() == 2);
  CHECK(ranks[0].others[1].process.rank == 2);
  REQUIRE(ranks[1].others.size() == 1);
  CHECK(ranks[1].others[0].process.pid == ::getpid());
}

TEST_CASE("strangers do not keep processes of one machine from each other", "[ranks][local_rendezvous]") {
  std::vector<Socket> open;
  double before = 0;
  const std::vector<Joined> ranks = joined({"t", "t"}, 60, [&](const std::string& name) {
    for (int i = 0; i < 12; ++i) open.push_back(connected_to(name));
    const std::string words = "GET / HTTP/1.1\r\n\r\n";
    ::send(open[0].descriptor(), words.data(), words.size(), MSG_NOSIGNAL);
    for (const json& rank : {json(1), json(0), json(5), json("x")}) {  // impostors with another token
      open.push_back(connected_to(name));
      Handshake handshake(handshake_key({"u"}, "ranks of one machine"));
      json answer;
      const json hello{{"rank", rank}, {"host", "h"}, {"pid", 7}};
      CHECK(handshake.send_hello(open.back().descriptor(), hello, steady_seconds() + 60) == FrameResult::frame);
      CHECK(handshake.read_answer(open.back().descriptor(), answer, steady_seconds() + 60) == FrameResult::unproven);
    }
    before = steady_seconds();
  });
  CHECK(steady_seconds() - before < 4);  // a silent connection is closed after 5 s
  for (const Joined& r : ranks) CHECK(r.error == "");
  CHECK(ranks[0].others.at(0).process.pid == ::getpid());
  REQUIRE(ranks[0].notes.size() == 1);
  CHECK(
      ranks[0].notes[0] ==
      "16 connections were not from ranks of this run: 11 silent, 1 with bytes of other programs, 4 without the run's "
      "token");
}

TEST_CASE("processes of one machine with different tokens end and say so", "[ranks][local_rendezvous]") {
  const std::vector<Joined> ranks = joined({"t", "u"}, 2);
  CHECK_THAT(ranks[0].error, StartsWith("10 E_MPI: of 2 ranks on this machine did not connect within 2 s: rank 1; "));
  CHECK_THAT(ranks[0].error, ContainsSubstring("1 without the run's token"));
  CHECK_THAT(ranks[1].error, StartsWith("10 E_RANKS: the tokens differ: "));
}
