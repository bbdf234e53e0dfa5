// Messages over one TCP connection per pair of ranks. exchange() sends and receives all messages concurrently with
// non-blocking calls and poll(), so that ranks with full send buffers cannot deadlock.

#include "trainer/comm/tcp.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "trainer/comm/message_communicator.h"
#include "trainer/comm/tcp_rendezvous.h"

namespace amp {

namespace {

struct Transfer {
  RankMessage left;  // the part that has not been sent or received yet
  bool outgoing = false;
};

class TcpRank final : public MessageCommunicator {
 public:
  TcpRank(const TcpEndpoint& place, std::vector<TcpPeer> peers)
      : MessageCommunicator(place.rank, place.size), peers_(std::move(peers)) {}
  // Shuts the connections down, so that pending transfers fail on this and on the other ranks.
  ~TcpRank() override {
    for (const TcpPeer& p : peers_) {
      if (p.socket.open()) ::shutdown(p.socket.descriptor(), SHUT_RDWR);
    }
    finish();
  }

  std::string lost_rank() const override {
    for (const TcpPeer& p : peers_) {
      if (p.socket.open() && wait_for(p.socket.descriptor(), POLLRDHUP, 0) > 0) return p.process.text();
    }
    return {};
  }

 private:
  // Makes progress on all messages concurrently, so that two ranks that send each other long messages do not deadlock.
  void exchange(const std::vector<RankMessage>& sent, const std::vector<RankMessage>& received) override {
    std::vector<Transfer> open;
    for (const RankMessage& m : received) open.push_back({m, false});
    for (const RankMessage& m : sent) open.push_back({m, true});
    std::vector<pollfd> waits;
    while (true) {
      for (Transfer& t : open) move(t);
      std::erase_if(open, [](const Transfer& t) { return t.left.bytes == 0; });
      if (open.empty()) return;
      waits.clear();
      for (const Transfer& t : open)
        waits.push_back({descriptor(t.left.rank), short(t.outgoing ? POLLOUT : POLLIN), 0});
      ::poll(waits.data(), waits.size(), -1);
    }
  }

  // Sends or receives as much as possible without waiting.
  void move(Transfer& t) const {
    constexpr int64_t kMost = int64_t{1} << 30;
    while (t.left.bytes > 0) {
      const auto n = static_cast<size_t>(std::min(kMost, t.left.bytes));
      const ssize_t moved = t.outgoing ? ::send(descriptor(t.left.rank), t.left.data, n, MSG_NOSIGNAL | MSG_DONTWAIT)
                                       : ::recv(descriptor(t.left.rank), t.left.data, n, MSG_DONTWAIT);
      if (moved > 0) {
        t.left.data += moved;
        t.left.bytes -= moved;
      } else if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return;
      } else if (moved == 0 || errno != EINTR) {
        lose(t.left.rank, moved == 0 ? "it closed its connection" : std::strerror(errno));
      }
    }
  }

  [[noreturn]] void lose(int rank, const std::string& why) const {
    fail(Exit::distributed, "E_RANK_LOST",
         cat(peers_[static_cast<size_t>(rank)].process.text(), " is gone, a message was lost: ", why),
         "go on from the last checkpoint with `resume` auto, with as many ranks as there are");
  }

  int descriptor(int rank) const { return peers_[static_cast<size_t>(rank)].socket.descriptor(); }

  const std::vector<TcpPeer> peers_;
};

}  // namespace

std::unique_ptr<Communicator> connect_tcp(const TcpEndpoint& place, const RankAccess& access, double connect_timeout,
                                          double heartbeat_timeout) {
  return std::make_unique<TcpRank>(place, rendezvous_by_tcp(place, access, connect_timeout, heartbeat_timeout));
}

}  // namespace amp
