// TCP connections between rank 0 and the other ranks. They transfer text lines with one JSON object each.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/comm/handshake.h"
#include "trainer/comm/sockets.h"

namespace amp {

// A non-blocking socket that transfers lines. Owns the descriptor.
class LineSocket {
 public:
  explicit LineSocket(Socket socket = Socket()) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.descriptor(); }
  // Returns false if the peer closed the connection or does not read.
  bool send(const nlohmann::json& line);
  // Returns the lines received since the last call. closed() is true if no more lines can follow.
  std::vector<nlohmann::json> receive();
  bool closed() const { return closed_; }
  void finish_sending();

 private:
  Socket socket_;
  bool closed_ = false;
  std::string pending_;
};

// Identifies a rank in messages.
struct RankProcess {
  int rank = 0;
  std::string host;
  int64_t pid = 0;
  std::string text() const;  // "rank 2 (host a, process 123)"
};

struct Connected {
  LineSocket socket;
  RankProcess process;
};

// Collective. Rank 0 gets the connections to the other ranks, in the order of the ranks; every other rank gets its
// connection to rank 0. If all ranks run on one machine, rank 0 listens on the loopback address only. The key of the
// handshake is made of the token and of a secret that the communicator broadcasts. Throws E_RANK_LOST immediately if
// the communicator detects a lost rank, else after connect_timeout seconds, and E_RANKS if the ranks' tokens differ.
std::vector<Connected> connect_ranks(Communicator& ranks, const RankAccess& access, double connect_timeout);

RankProcess this_process(int rank);
// Throws E_RANKS: this process and the process that listens at `where` have different tokens.
[[noreturn]] void tokens_differ(const RankProcess& me, const std::string& where);

}  // namespace amp
