// Ranks with TCP connections as threads of one process, and the first messages of a rank by hand.
#pragma once

#include <netinet/in.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/steady_seconds.h"
#include "tests/trainer/ranked_run.h"
#include "trainer/comm/frames.h"
#include "trainer/comm/handshake.h"
#include "trainer/comm/sockets.h"
#include "trainer/comm/tcp.h"

namespace amp::test {

constexpr double kConnectTimeout = 60;  // seconds; long enough for a busy machine

inline double later() { return steady_seconds() + kConnectTimeout; }

inline int free_port() { return listen_on(INADDR_LOOPBACK, 0, 1).port; }

inline TcpEndpoint place(int rank, int size, int port) { return {rank, size, "127.0.0.1", port, {}}; }

struct TcpProcess {
  TcpProcess(TcpEndpoint endpoint, std::string rank_token = {})
      : place(std::move(endpoint)), token(std::move(rank_token)) {}
  TcpEndpoint place;
  std::string token;
};

// Runs one thread per process. Returns their errors in order; empty if there is none. notes: receives the notes.
inline std::vector<std::string> on_places(const std::vector<TcpProcess>& processes,
                                          const std::function<void(Communicator&)>& body,
                                          double connect_timeout = kConnectTimeout,
                                          std::vector<std::string>* notes = nullptr) {
  std::vector<std::string> errors(processes.size());
  std::vector<std::thread> threads;
  std::mutex mutex;
  const Log log([&](Level, const std::string& text) {
    const std::lock_guard lock(mutex);
    if (notes) notes->push_back(text);
  });
  for (size_t i = 0; i < processes.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        const RankAccess access{processes[i].token, log};
        const std::unique_ptr<Communicator> rank = connect_tcp(processes[i].place, access, connect_timeout, 15);
        body(*rank);
      } catch (const Error& e) {
        errors[i] = cat(static_cast<int>(e.exit()), ' ', e.id(), ": ", e.fact());
      } catch (const std::exception& e) {
        errors[i] = e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return errors;
}

inline Socket connected(int port) {
  Socket s;
  while (!s.open()) {  // rank 0 may not listen yet
    s = dial("127.0.0.1", port, 1);
    if (!s.open()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return s;
}

inline Handshake entrance(const std::string& token) { return Handshake(handshake_key({token}, "ranks to rank 0")); }

inline nlohmann::json hello_of(int rank, int size, int protocol = 2) {
  return {{"protocol", protocol}, {"rank", rank}, {"size", size}, {"job", ""},
          {"host", "h"},          {"pid", 7},     {"port", 1},    {"addresses", nlohmann::json::array()}};
}

// Sends the hello of a rank to rank 0, as process 7 on host h.
inline Handshake say_hello(const Socket& s, int rank, int size, int protocol = 2, const std::string& token = {}) {
  Handshake out = entrance(token);
  out.send_hello(s.descriptor(), hello_of(rank, size, protocol), later());
  return out;
}

}  // namespace amp::test
