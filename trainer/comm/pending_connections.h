// Connections to a listener whose peers have not proved yet that they belong to the run (handshake.h). One call of
// poll() waits for all of them, so that silent peers do not delay the others.
#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "trainer/comm/handshake.h"
#include "trainer/comm/sockets.h"

namespace amp {

class PendingConnections {
 public:
  // A peer that has the key.
  struct Arrival {
    Socket socket;
    Handshake handshake;  // answers the hello
    nlohmann::json hello;
    std::string address;
  };

  // listener: a non-blocking socket that listens; it must outlive this object. expected: the number of ranks, which is
  // added to the limit of pending connections. admits(socket), if given, returns whether a
  // connection is accepted; others are closed at once.
  PendingConnections(int listener, std::string key, int expected, std::function<bool(int)> admits = {});

  // Waits at most `seconds`, or until something happens on the listener, a pending connection or a watched socket. Sets
  // the revents of `watched`. Returns the peers that have proved since the last call that they have the key.
  std::vector<Arrival> wait(double seconds, std::vector<pollfd>& watched);
  // Counts a peer that has the key but whose hello is not valid.
  void count_foreign(const Arrival& a) { count(Stranger::foreign, a.address); }

  // Describes the connections that were not ranks, with their number; "" if there are none. Includes pending
  // connections.
  std::string strangers() const;

 private:
  enum class Stranger { silent, left, foreign, unproven };
  struct Pending {
    Socket socket;
    Handshake handshake;
    FrameReader reader;
    double until;
    std::string address;
    bool over = false;
  };

  void accept_new();
  void read(Pending& p, std::vector<Arrival>& out);
  void drop_oldest();
  void count(Stranger kind, const std::string& address);

  const int listener_;
  const std::string key_;
  const size_t most_;
  const std::function<bool(int)> admits_;
  std::deque<Pending> pending_;  // the oldest first
  std::array<int64_t, 4> counts_{};
  std::string last_address_;
};

}  // namespace amp
