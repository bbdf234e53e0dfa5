// Rendezvous over TCP. The protocol uses frames (frames.h). Each rank sends rank 0 its hello (protocol, size, job,
// addresses). Rank 0 answers "refused" or, when all ranks have connected, the directory of all ranks and a secret. Then
// each rank connects to all lower ranks and sends the secret, which identifies members of this run.

#include "trainer/comm/tcp_rendezvous.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/steady_seconds.h"
#include "base/text.h"
#include "trainer/comm/frames.h"

namespace amp {

namespace {

using nlohmann::json;

constexpr int kProtocol = 1;
constexpr double kHelloSeconds = 5;  // timeout for the first frame of a connection
// seconds that a connected rank has to answer, in addition to the heartbeat timeout
constexpr double kAnswerSeconds = 5;
constexpr double kGoneSeconds = 2;  // rank 0 is lost if it is unreachable for this time after it closed a connection
constexpr double kDialSeconds = 2;
constexpr double kRetrySeconds = 0.1;
constexpr size_t kMostDirectory = 64 << 20;  // bytes of the largest directory; a rank needs about 200

struct Contact {  // a rank's description in the directory
  RankProcess process;
  int port = 0;
  std::vector<std::string> addresses;
};

json to_json(const Contact& c) {
  return {{"rank", c.process.rank},
          {"host", c.process.host},
          {"pid", c.process.pid},
          {"port", c.port},
          {"addresses", c.addresses}};
}

Contact contact_from(const json& j) {
  return {{j.at("rank").get<int>(), printable(j.at("host").get<std::string>()), j.at("pid").get<int64_t>()},
          j.at("port").get<int>(),
          j.at("addresses").get<std::vector<std::string>>()};
}

[[noreturn]] void disagree(const std::string& fact) {
  fail(Exit::distributed, "E_RANKS", fact,
       "every rank of a run needs the same WORLD_SIZE, MASTER_ADDR and MASTER_PORT, a RANK of its own and this "
       "program's "
       "version; other runs on the machine need another MASTER_PORT");
}

[[noreturn]] void missing_ranks(const std::string& fact) {
  fail(Exit::distributed, "E_RANKS", fact,
       "another process failed at its start, or was not started, or they do not reach each other; else a longer "
       "`heartbeat`");
}

[[noreturn]] void left(const std::string& who) {
  fail(Exit::distributed, "E_RANK_LOST", cat(who, " left before all ranks were connected"), "its own messages say why");
}

// Returns the loopback address that `host` denotes, or 0 if the host may be another machine.
uint32_t loopback(const std::string& host) {
  in_addr at = {};
  if (host == "localhost") return INADDR_LOOPBACK;
  if (::inet_pton(AF_INET, host.c_str(), &at) != 1) return 0;
  return ntohl(at.s_addr) >> 24 == 127 ? ntohl(at.s_addr) : 0;
}

std::vector<std::string> resolve(const std::string& host, std::string& why) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  std::vector<std::string> out;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    why = cat(": ", ::gai_strerror(error));
    return out;
  }
  for (const addrinfo* a = found; a; a = a->ai_next) {
    char text[INET_ADDRSTRLEN];
    const auto* const in = reinterpret_cast<const sockaddr_in*>(a->ai_addr);
    if (::inet_ntop(AF_INET, &in->sin_addr, text, sizeof text)) out.emplace_back(text);
  }
  ::freeaddrinfo(found);
  return out;
}

std::string address_of(int socket, decltype(::getpeername)* which) {
  sockaddr_in at = {};
  socklen_t size = sizeof at;
  char text[INET_ADDRSTRLEN] = "";
  if (which(socket, reinterpret_cast<sockaddr*>(&at), &size) == 0)
    ::inet_ntop(AF_INET, &at.sin_addr, text, sizeof text);
  return text;
}

class TcpRendezvous {
 public:
  TcpRendezvous(const TcpEndpoint& place, double connect_timeout, double heartbeat_timeout)
      : place_(place),
        me_(this_process(place.rank)),
        loopback_(loopback(place.host)),
        connect_timeout_(connect_timeout),
        mesh_(heartbeat_timeout + kAnswerSeconds),
        until_(steady_seconds() + connect_timeout),
        peers_(static_cast<size_t>(place.size)) {}

  std::vector<TcpPeer> meet() {
    peer(place_.rank).process = me_;
    if (place_.rank == 0)
      run_root();
    else
      join();
    for (const TcpPeer& p : peers_) {
      const int yes = 1;  // every message is written as a whole, so Nagle's algorithm would only delay it
      if (p.socket.open()) ::setsockopt(p.socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    }
    return std::move(peers_);
  }

 private:
  TcpPeer& peer(int rank) { return peers_[static_cast<size_t>(rank)]; }
  std::string where() const { return cat(place_.host, ":", place_.port); }

  // ---- rank 0
  void run_root() {
    const Listener l = listen_on(loopback_ ? loopback_ : INADDR_ANY, place_.port, place_.size);
    if (!l.socket.open()) disagree(cat("rank 0 cannot listen at ", where(), ": ", std::strerror(errno)));
    contacts_.assign(peers_.size(), {});
    contacts_[0].process = me_;
    for (int missing = place_.size - 1; missing > 0;) {
      if (steady_seconds() > until_) {
        refuse_all(absent());
        missing_ranks(absent());
      }
      if (!somebody_waits(l)) continue;
      missing -= admit(accepted(l));
    }
    json all = json::array();
    for (const Contact& c : contacts_) all.push_back(to_json(c));
    const json welcome{{"ranks", all}, {"secret", shared_secret()}};
    if (welcome.at("secret") == "") disagree("rank 0: the system has no random numbers");
    for (int r = 1; r < place_.size; ++r) {
      if (!send_frame(peer(r).socket.descriptor(), welcome, steady_seconds() + mesh_)) left(peer(r).process.text());
    }
  }

  // Waits up to 0.5 s. Returns whether a new connection waits. Fails if a connected rank disconnects meanwhile.
  bool somebody_waits(const Listener& l) {
    std::vector<pollfd> waits{{l.socket.descriptor(), POLLIN, 0}};
    std::vector<int> ranks{0};
    for (int r = 1; r < place_.size; ++r) {
      if (!peer(r).socket.open()) continue;
      waits.push_back({peer(r).socket.descriptor(), POLLRDHUP, 0});
      ranks.push_back(r);
    }
    ::poll(waits.data(), waits.size(), 500);
    for (size_t i = 1; i < waits.size(); ++i) {
      if (!waits[i].revents) continue;
      const std::string who = peer(ranks[i]).process.text();
      refuse_all(cat(who, " left before all ranks were connected"));
      left(who);
    }
    return waits[0].revents != 0;
  }

  // Reads the hello of a connection. Returns the number of ranks that it added: 1, or 0 if the peer is not a rank of
  // this run.
  int admit(Socket socket) {
    json hello;
    if (!socket.open()) return 0;
    if (read_frame(socket.descriptor(), hello, std::min(until_, steady_seconds() + kHelloSeconds)) !=
        FrameResult::frame) {
      stranger_ = address_of(socket.descriptor(), ::getpeername);
      return 0;
    }
    try {
      const std::string job = hello.at("job");
      const int protocol = hello.at("protocol"), size = hello.at("size");
      Contact c = contact_from(hello);
      if (job != place_.job) {
        refuse(socket, cat("rank 0 at ", where(), " is of job '", printable(place_.job), "', ", c.process.text(),
                           " of '", printable(job), "'"));
        return 0;
      }
      const std::string why = differs(c.process, protocol, size);
      if (!why.empty()) {
        refuse(socket, why);
        refuse_all(why);
        disagree(why);
      }
      TcpPeer& p = peer(c.process.rank);
      p.process = c.process;
      p.socket = std::move(socket);
      contacts_[static_cast<size_t>(c.process.rank)] = std::move(c);
      return 1;
    } catch (const json::exception&) {
      stranger_ = address_of(socket.descriptor(), ::getpeername);
      return 0;
    }
  }

  std::string differs(const RankProcess& p, int protocol, int size) {
    if (protocol != kProtocol) return cat(p.text(), " speaks protocol ", protocol, ", rank 0 protocol ", kProtocol);
    if (size != place_.size) return cat(p.text(), " is one of ", size, " (WORLD_SIZE), rank 0 one of ", place_.size);
    if (p.rank == 0) return cat(p.text(), " and ", me_.text(), " are both rank 0");
    if (p.rank < 0 || p.rank >= size) return cat(p.text(), " is no rank of ", size);
    if (peer(p.rank).socket.open())
      return cat("there are two of rank ", p.rank, ": ", peer(p.rank).process.text(), ", ", p.text());
    return {};
  }

  static void refuse(const Socket& socket, const std::string& why) {
    send_frame(socket.descriptor(), {{"refused", why}}, steady_seconds() + 1);
  }

  void refuse_all(const std::string& why) const {
    for (const TcpPeer& p : peers_) {
      if (p.socket.open()) refuse(p.socket, why);
    }
  }

  std::string absent() const {
    std::string out;
    for (size_t r = 1; r < peers_.size(); ++r) {
      if (!peers_[r].socket.open()) out += cat(out.empty() ? "" : ", ", r);
    }
    return cat(
        "of ", place_.size, " ranks these did not connect to rank 0 at ", where(), " within ", connect_timeout_,
        " s: ", out,
        stranger_.empty() ? std::string() : cat("; somebody at ", stranger_, " did who is no rank of this program"));
  }

  // ---- ranks other than 0
  void join() {
    const Listener l = listen_on(loopback_ ? INADDR_LOOPBACK : INADDR_ANY, 0, place_.size);
    if (!l.socket.open()) disagree(cat("no port to listen on: ", std::strerror(errno)));
    std::string secret;
    try {
      const json welcome = enter(l.port);
      secret = welcome.at("secret");
      for (const json& c : welcome.at("ranks")) contacts_.push_back(contact_from(c));
      check_directory();
    } catch (const json::exception&) {
      foreign_first();
    }
    for (int r = 0; r < place_.size; ++r) peer(r).process = contacts_[static_cast<size_t>(r)].process;
    until_ = steady_seconds() + mesh_;
    for (int r = 1; r < place_.rank; ++r) reach(r, secret);
    for (int missing = place_.size - 1 - place_.rank; missing > 0;) missing -= receive(l, secret);
  }

  void check_directory() const {
    if (contacts_.size() != peers_.size()) foreign_first();
    for (size_t r = 0; r < contacts_.size(); ++r) {
      if (contacts_[r].process.rank != static_cast<int>(r)) foreign_first();
    }
  }

  [[noreturn]] void foreign_first() const { disagree(cat("what answers at ", where(), " is no rank of this program")); }

  // Connects to rank 0 and returns its answer, which arrives when all ranks are connected.
  json enter(int port) {
    std::string why;
    double closed = 0;  // time at which rank 0 closed the connection; 0: it did not
    while (steady_seconds() < until_) {
      why.clear();
      for (const std::string& address : resolve(place_.host, why)) {
        Socket s = dial(address, place_.port, kDialSeconds);
        if (!s.open()) continue;
        closed = 0;
        json hello = to_json({me_, port, own_addresses(s)}), welcome;
        hello.update({{"protocol", kProtocol}, {"size", place_.size}, {"job", place_.job}});
        if (!send_frame(s.descriptor(), hello, until_)) continue;
        const FrameResult heard = read_frame(s.descriptor(), welcome, until_ + kHelloSeconds, kMostDirectory);
        if (heard == FrameResult::foreign) foreign_first();
        if (heard == FrameResult::closed) closed = steady_seconds();
        if (heard != FrameResult::frame) continue;  // rank 0 is not ready yet, or lost
        if (welcome.contains("refused")) disagree(printable(welcome.at("refused").get<std::string>()));
        peer(0).socket = std::move(s);
        return welcome;
      }
      if (closed > 0 && steady_seconds() - closed > kGoneSeconds) left(cat("rank 0 at ", where()));
      std::this_thread::sleep_for(std::chrono::duration<double>(kRetrySeconds));
    }
    missing_ranks(cat("rank ", place_.rank, " finds no rank 0 at ", where(), " within ", connect_timeout_, " s", why));
  }

  // Returns the addresses at which other machines reach this one. The first is the local address of the connection to
  // rank 0.
  std::vector<std::string> own_addresses(const Socket& to_first) const {
    if (loopback_) return {"127.0.0.1"};
    std::vector<std::string> out = machine_addresses();
    const std::string nearest = address_of(to_first.descriptor(), ::getsockname);
    if (!loopback(nearest)) out.insert(out.begin(), nearest);
    if (out.empty()) out.push_back("127.0.0.1");
    return out;
  }

  void reach(int rank, const std::string& secret) {
    const Contact& c = contacts_[static_cast<size_t>(rank)];
    while (steady_seconds() < until_) {
      for (const std::string& address : c.addresses) {
        Socket s = dial(address, c.port, kDialSeconds);
        json answer;
        // A failure is not an error: some addresses of a machine may be unreachable or belong to another machine.
        if (!s.open() || !send_frame(s.descriptor(), {{"secret", secret}, {"rank", place_.rank}}, until_)) continue;
        if (read_frame(s.descriptor(), answer, until_) != FrameResult::frame || answer.value("rank", json()) != rank)
          continue;
        peer(rank).socket = std::move(s);
        return;
      }
      look_after_first();
      std::this_thread::sleep_for(std::chrono::duration<double>(kRetrySeconds));
    }
    fail(Exit::distributed, "E_RANK_LOST",
         cat(me_.text(), " does not reach ", c.process.text(), " at ", join_addresses(c), " within ", mesh_, " s"),
         "every rank needs a TCP connection with each other one, on ports that their systems choose");
  }

  static std::string join_addresses(const Contact& c) {
    std::string out;
    for (const std::string& a : c.addresses) out += cat(out.empty() ? "" : ", ", printable(a), ":", c.port);
    return out;
  }

  int receive(const Listener& l, const std::string& secret) {
    if (steady_seconds() > until_) {
      for (int r = place_.rank + 1; r < place_.size; ++r) {
        if (!peer(r).socket.open()) left(peer(r).process.text());
      }
    }
    look_after_first();
    if (wait_for(l.socket.descriptor(), POLLIN, 0.5) != 1) return 0;
    Socket s = accepted(l);
    json hello;
    if (!s.open() || read_frame(s.descriptor(), hello, steady_seconds() + kHelloSeconds) != FrameResult::frame)
      return 0;
    if (hello.value("secret", json()) != secret || !hello.value("rank", json()).is_number_integer()) return 0;
    const int rank = hello.at("rank").get<int>();
    if (rank <= place_.rank || rank >= place_.size || peer(rank).socket.open()) return 0;
    if (!send_frame(s.descriptor(), {{"rank", place_.rank}}, until_)) return 0;
    peer(rank).socket = std::move(s);
    return 1;
  }

  // Fails if rank 0 has disconnected, which rank 0 does when any other rank has left.
  void look_after_first() {
    if (wait_for(peer(0).socket.descriptor(), POLLRDHUP, 0) > 0) left(peer(0).process.text());
  }

  const TcpEndpoint& place_;
  const RankProcess me_;
  const uint32_t loopback_;
  const double connect_timeout_;
  const double mesh_;  // timeout in seconds for the connections between ranks, after rank 0 has sent the directory
  double until_;
  std::vector<TcpPeer> peers_;
  std::vector<Contact> contacts_;  // indexed by rank
  std::string stranger_;           // address of the last peer that was not a rank of this run
};

}  // namespace

std::vector<TcpPeer> rendezvous_by_tcp(const TcpEndpoint& place, double connect_timeout, double heartbeat_timeout) {
  return TcpRendezvous(place, connect_timeout, heartbeat_timeout).meet();
}

}  // namespace amp
