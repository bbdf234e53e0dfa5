// TCP connections of the ranks to the first one, and the lines that go over them: a JSON object each.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/collective.h"
#include "trainer/ranks/sockets.h"

namespace amp {

// A socket that carries lines and never blocks. Closed with the object.
class LineSocket {
 public:
  explicit LineSocket(Socket socket = Socket()) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.descriptor(); }
  // False: nobody is there, or reads, any more.
  bool send(const nlohmann::json& line);
  // What has come; closed() says whether more can.
  std::vector<nlohmann::json> receive();
  std::optional<nlohmann::json> first(double until);  // the one line that a connection begins with, if it comes in time
  bool closed() const { return closed_; }
  void finish_sending();

 private:
  Socket socket_;
  bool closed_ = false;
  std::string pending_;
};

// What a rank is called by people.
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

// By all ranks together. The first rank gets a connection with each other one, in their order; they get that with the
// first. Where all are on one machine nothing listens outside of it; and nobody is let in without the secret that the
// collective carried. E_RANK_LOST: at once where the collective sees that a rank is gone, else after so many seconds.
std::vector<Connected> connect_ranks(Collective& ranks, double patience);

RankProcess this_process(int rank);

}  // namespace amp
