// Ranks with TCP connections. Here they are threads with separate sockets on the loopback address. Collectives must
// give the bits of ranks that are threads; lost and wrong ranks must be named. Strangers: tcp_strangers_test.cc.
#include "trainer/comm/tcp.h"

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>

#include "tests/errors.h"
#include "tests/trainer/tcp_ranks.h"

using namespace amp;
using namespace amp::test;

namespace {

using Catch::Matchers::ContainsSubstring;

void on_tcp_ranks(int size, const std::function<void(Communicator&)>& body) {
  const int port = free_port();
  std::vector<TcpProcess> places;
  for (int r = size - 1; r >= 0; --r) places.push_back(place(r, size, port));  // the first rank starts last
  for (const std::string& e : on_places(places, body)) REQUIRE(e == "");
}

// Runs every collective on numbers whose sum depends on the order. Returns the results.
std::vector<double> all_collectives(Communicator& rank, int64_t n) {
  const auto fill = [&](auto& x) {
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<std::decay_t<decltype(x[0])>>((int64_t(i) * 37 + rank.rank() * 101) % 97 * 0.37 - 11);
  };
  const auto count = static_cast<size_t>(n);
  std::vector<float> started(count), scattered(count), gathered(count);
  std::vector<double> sum(count), top(count);
  fill(started), fill(scattered), fill(gathered), fill(sum), fill(top);
  Communicator::Handle handle = rank.start_sum(std::make_shared<RankSum>(RankSum{nullptr, std::span(started)}));
  rank.all_reduce(std::span(sum), Reduction::sum);
  rank.all_reduce(std::span(top), Reduction::max);
  handle.get();
  rank.barrier();
  rank.reduce_scatter(std::span(scattered), Reduction::sum);
  rank.all_gather(std::span(gathered));
  std::string text = cat("of rank ", rank.rank(), std::string(count, '.'));
  rank.broadcast(text, rank.size() - 1);
  std::vector<double> out(text.begin(), text.end());
  for (const auto& x : {started, scattered, gathered}) out.insert(out.end(), x.begin(), x.end());
  for (const auto& x : {sum, top}) out.insert(out.end(), x.begin(), x.end());
  return out;
}

}  // namespace

TEST_CASE("collectives by TCP are those of threads, bit for bit", "[ranks][tcp]") {
  const int size = GENERATE(1, 2, 3, 4);
  const int64_t n = GENERATE(0, 1, 5, 64, 1000);
  INFO(size << " ranks, " << n << " elements");
  std::vector<std::vector<double>> threads(static_cast<size_t>(size)), tcp(threads.size());
  on_ranks(size, [&](Communicator& r) { threads[static_cast<size_t>(r.rank())] = all_collectives(r, n); });
  on_tcp_ranks(size, [&](Communicator& r) { tcp[static_cast<size_t>(r.rank())] = all_collectives(r, n); });
  for (size_t r = 0; r < threads.size(); ++r)
    CHECK(std::memcmp(tcp[r].data(), threads[r].data(), threads[r].size() * sizeof(double)) == 0);
  CHECK(tcp == threads);
}

TEST_CASE("long messages go both ways at once", "[ranks][tcp]") {
  constexpr int64_t kElements = 6'000'000;  // 24 MB, far more than sockets buffer
  on_tcp_ranks(3, [](Communicator& rank) {
    std::vector<float> x(kElements, static_cast<float>(rank.rank() + 1));
    rank.all_gather(std::span(x));
    for (int r = 0; r < rank.size(); ++r) {
      const Communicator::Shard s = rank.shard(kElements, r);
      for (const int64_t i : {s.begin, s.begin + s.count - 1}) {
        if (x[static_cast<size_t>(i)] != static_cast<float>(r + 1)) throw std::runtime_error("a wrong share");
      }
    }
    rank.all_reduce(std::span(x), Reduction::sum);
    for (const float v : {x.front(), x.back()}) {
      if (v != 3 && v != 9) throw std::runtime_error("a wrong sum");
    }
    std::string text(rank.rank() == 1 ? 10'000'000 : 3, static_cast<char>('a' + rank.rank()));
    rank.broadcast(text, 1);
    if (text != std::string(10'000'000, 'b')) throw std::runtime_error("a wrong text");
  });
}

TEST_CASE("a rank that is gone is named to those who wait for it", "[ranks][tcp]") {
  const bool amid = GENERATE(false, true);  // whether rank 2 ends while a long message is sent
  const int port = free_port();
  const std::vector<std::string> errors =
      on_places({place(0, 3, port), place(1, 3, port), place(2, 3, port)}, [&](Communicator& rank) {
        rank.barrier();
        if (rank.rank() == 2) return;  // the connections of rank 2 close
        std::vector<float> x(amid ? 6'000'000 : 64);
        while (true) rank.all_reduce(std::span(x), Reduction::sum);
      });
  CHECK(errors[2] == "");
  for (const size_t r : {0u, 1u}) {
    CHECK_THAT(errors[r], Catch::Matchers::StartsWith("10 E_RANK_LOST: rank "));
    CHECK_THAT(errors[r], ContainsSubstring("is gone"));
  }
  // The rank that notices the loss names the first lost rank. It then ends, so the other rank loses it.
  CHECK_THAT(errors[0] + errors[1], ContainsSubstring("rank 2 (host "));
}

TEST_CASE("a rank can leave while a sum is under way", "[ranks][tcp]") {
  const int port = free_port();
  std::atomic<bool> left = false;
  std::vector<float> x(6'000'000, 1);
  const std::vector<std::string> errors = on_places({place(0, 2, port), place(1, 2, port)}, [&](Communicator& rank) {
    rank.barrier();
    if (rank.rank() == 1) {
      (void)rank.start_sum(std::make_shared<RankSum>(RankSum{nullptr, std::span(x)}));
      left = true;
      return;
    }
    while (!left) std::this_thread::yield();
    rank.barrier();
    rank.barrier();
  });
  CHECK(errors[1] == "");
  CHECK_THAT(errors[0], Catch::Matchers::StartsWith("10 E_RANK_LOST: rank 1 "));
}

TEST_CASE("ranks that disagree are refused by what differs", "[ranks][tcp]") {
  const int port = free_port();
  std::vector<TcpProcess> places;
  std::string part;
  SECTION("world sizes") {
    places = {place(0, 2, port), place(1, 3, port)};
    part = "is one of 3 (WORLD_SIZE), rank 0 one of 2";
  }
  SECTION("a rank twice") {
    places = {place(0, 3, port), place(1, 3, port), place(1, 3, port)};
    part = "there are two of rank 1: rank 1 (host ";
  }
  for (const std::string& e : on_places(places, [](Communicator&) {})) {
    CHECK_THAT(e, Catch::Matchers::StartsWith("10 E_RANKS: "));
    CHECK_THAT(e, ContainsSubstring(part));
  }
}

TEST_CASE("a rank of another protocol is refused", "[ranks][tcp]") {
  const int port = free_port();
  nlohmann::json answer;
  std::thread other([&] {
    const Socket s = connected(port);
    const Handshake handshake = say_hello(s, 1, 2, 99);
    handshake.read_answer(s.descriptor(), answer, later());
  });
  const std::vector<std::string> errors = on_places({place(0, 2, port)}, [](Communicator&) {});
  other.join();
  const std::string why = "rank 1 (host h, process 7) uses protocol 99, rank 0 protocol 2";
  CHECK(errors[0] == "10 E_RANKS: " + why);
  CHECK(answer.value("refused", "") == why);
}

TEST_CASE("a rank of another job is sent away, the others go on", "[ranks][tcp]") {
  TcpEndpoint first = place(0, 2, free_port()), second = place(1, 2, first.port), other = second;
  first.job = second.job = "red";
  other.job = "blue";
  std::vector<std::string> errors;
  std::thread leader([&] { errors = on_places({first}, [](Communicator& r) { r.barrier(); }); });
  const std::string refused = on_places({other}, [](Communicator& r) { r.barrier(); })[0];
  CHECK_THAT(refused, Catch::Matchers::StartsWith("10 E_RANKS: rank 0 at "));
  CHECK_THAT(refused, ContainsSubstring("is of job 'red', rank 1 (host "));
  CHECK_THAT(refused, Catch::Matchers::EndsWith("of 'blue'"));
  CHECK(on_places({second}, [](Communicator& r) { r.barrier(); })[0] == "");
  leader.join();
  CHECK(errors[0] == "");
}

TEST_CASE("a rank that leaves while others are awaited is named", "[ranks][tcp]") {
  const int port = free_port();
  nlohmann::json answer;
  std::thread others([&] {
    const Socket two = connected(port);
    const Handshake handshake = say_hello(two, 2, 4);
    const Socket one = connected(port);
    say_hello(one, 1, 4);
    ::shutdown(one.descriptor(), SHUT_RDWR);
    handshake.read_answer(two.descriptor(), answer, later());
  });
  const std::vector<std::string> errors = on_places({place(0, 4, port)}, [](Communicator&) {});
  others.join();
  const std::string why = "rank 1 (host h, process 7) left before all ranks were connected";
  CHECK(errors[0] == "10 E_RANK_LOST: " + why);
  CHECK(answer.value("refused", "") == why);
}

TEST_CASE("ranks that do not come are named", "[ranks][tcp]") {
  const int port = free_port();
  SECTION("some") {
    const std::vector<std::string> errors = on_places(
        {place(0, 4, port), place(2, 4, port)}, [](Communicator&) {}, 2);
    CHECK_THAT(errors[0], Catch::Matchers::StartsWith("10 E_RANKS: of 4 ranks these did not connect to rank 0 at "));
    CHECK_THAT(errors[0], Catch::Matchers::EndsWith("within 2 s: 1, 3"));
    CHECK_THAT(errors[1], Catch::Matchers::StartsWith("10 E_RANKS: "));
  }
  SECTION("the first") {
    CHECK(on_places(
              {place(1, 2, port)}, [](Communicator&) {}, 0.3)[0] ==
          cat("10 E_RANKS: rank 1 finds no rank 0 at 127.0.0.1:", port, " within 0.3 s"));
  }
  SECTION("a host that nobody knows") {
    TcpEndpoint unknown = place(1, 2, port);
    unknown.host = "no-such-host.invalid";
    CHECK_THAT(on_places(
                   {unknown}, [](Communicator&) {}, 0.1)[0],
               Catch::Matchers::StartsWith(cat("10 E_RANKS: rank 1 finds no rank 0 at no-such-host.invalid:", port)));
  }
}

TEST_CASE("a port that somebody has is told by rank 0", "[ranks][tcp]") {
  const Listener l = listen_on(INADDR_LOOPBACK, 0, 1);
  CHECK_THAT(on_places({place(0, 2, l.port)}, [](Communicator&) {})[0],
             Catch::Matchers::StartsWith(cat("10 E_RANKS: rank 0 cannot listen at 127.0.0.1:", l.port, ": ")));
}
