// Rendezvous over TCP. Every connection begins with a handshake (handshake.h), so frames of other programs and of
// processes without the run's token are dropped. Each rank's hello to rank 0 has protocol, size, job and addresses.
// Rank 0 answers "refused" or, when all ranks have connected, the directory of all ranks and a secret. Then each rank
// connects to all lower ranks; the key of these handshakes is made of token and secret.

#include "trainer/comm/tcp_rendezvous.h"

#include <arpa/inet.h>
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
#include "trainer/comm/pending_connections.h"

namespace amp {

namespace {

using nlohmann::json;

// Version of the messages that follow a handshake. Handshake, rank, host and pid stay the same in all versions, so that
// an error can name a rank of another version.
constexpr int kProtocol = 2;
constexpr double kHelloSeconds = 5;  // time in which a listener sends its challenge
// seconds that a connected rank has to answer, in addition to the heartbeat timeout
constexpr double kAnswerSeconds = 5;
constexpr double kGoneSeconds = 2;  // rank 0 is lost if it is unreachable for this time after it closed a connection
// Time for which another program must answer in place of rank 0 until that is an error.
constexpr double kWrongSeconds = 2;
constexpr double kDialSeconds = 2;
constexpr double kRetrySeconds = 0.1, kWrongRetrySeconds = 0.5;
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

RankProcess process_from(const json& j) {
  return {j.at("rank").get<int>(), printable(j.at("host").get<std::string>()), j.at("pid").get<int64_t>()};
}

Contact contact_from(const json& j) {
  return {process_from(j), j.at("port").get<int>(), j.at("addresses").get<std::vector<std::string>>()};
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
  fail(Exit::distributed, "E_RANK_LOST", cat(who, " left before all ranks were connected"),
       "its own messages give the reason");
}

// Returns the loopback address that `host` denotes, or 0 if the host may be another machine.
uint32_t loopback(const std::string& host) {
  in_addr at = {};
  if (host == "localhost") return INADDR_LOOPBACK;
  if (::inet_pton(AF_INET, host.c_str(), &at) != 1) return 0;
  return ntohl(at.s_addr) >> 24 == 127 ? ntohl(at.s_addr) : 0;
}

class TcpRendezvous {
 public:
  TcpRendezvous(const TcpEndpoint& place, const RankAccess& access, double connect_timeout, double heartbeat_timeout)
      : place_(place),
        access_(access),
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

  std::string entrance_key() const { return handshake_key(access_, "ranks to rank 0"); }

  // ---- rank 0
  void run_root() {
    const Listener l = listen_on(loopback_ ? loopback_ : INADDR_ANY, place_.port, SOMAXCONN);
    if (!l.socket.open()) disagree(cat("rank 0 cannot listen at ", where(), ": ", std::strerror(errno)));
    if (!loopback_ && access_.token.empty())
      access_.log.note(cat("rank 0 listens at port ", l.port,
                           " of all addresses of this machine, and the run has no "
                           "token: any process that can reach the port can join or end the run (ONNX_AMP_RANK_TOKEN or "
                           "`rank_token_file`, docs/scaling.md)"));
    contacts_.assign(peers_.size(), {});
    contacts_[0].process = me_;
    handshakes_.resize(peers_.size());
    PendingConnections pending(l.socket.descriptor(), entrance_key(), place_.size);
    for (int missing = place_.size - 1; missing > 0;) {
      if (steady_seconds() > until_) {
        const std::string why = absent(pending.strangers());
        refuse_all(why);
        missing_ranks(why);
      }
      for (PendingConnections::Arrival& a : arrivals(pending)) {
        if (admit(a, pending)) --missing;
      }
    }
    if (const std::string strangers = pending.strangers(); !strangers.empty()) access_.log.note(strangers);
    json all = json::array();
    for (const Contact& c : contacts_) all.push_back(to_json(c));
    const json welcome{{"ranks", all}, {"secret", shared_secret()}};
    if (welcome.at("secret") == "") disagree("rank 0: the system has no random numbers");
    for (int r = 1; r < place_.size; ++r) {
      if (!answer(r, welcome, mesh_)) left(peer(r).process.text());
    }
  }

  bool answer(int rank, const json& text, double seconds) {
    return handshakes_[static_cast<size_t>(rank)].send_answer(peer(rank).socket.descriptor(), text,
                                                              steady_seconds() + seconds);
  }

  // Waits up to 0.5 s for processes that have the key. Fails if a connected rank disconnects meanwhile.
  std::vector<PendingConnections::Arrival> arrivals(PendingConnections& pending) {
    std::vector<pollfd> waits;
    std::vector<int> ranks;
    for (int r = 1; r < place_.size; ++r) {
      if (!peer(r).socket.open()) continue;
      waits.push_back({peer(r).socket.descriptor(), POLLRDHUP, 0});
      ranks.push_back(r);
    }
    std::vector<PendingConnections::Arrival> out = pending.wait(0.5, waits);
    for (size_t i = 0; i < waits.size(); ++i) {
      if (!waits[i].revents) continue;
      const std::string who = peer(ranks[i]).process.text();
      refuse_all(cat(who, " left before all ranks were connected"));
      left(who);
    }
    return out;
  }

  // Adds a process that has the key. Returns false if it is not a rank of this run. Throws E_RANKS if it is a rank of
  // another version or with other variables.
  bool admit(PendingConnections::Arrival& a, PendingConnections& pending) {
    try {
      const RankProcess process = process_from(a.hello);
      const int protocol = a.hello.at("protocol");
      std::string why = cat(process.text(), " uses protocol ", protocol, ", rank 0 protocol ", kProtocol);
      if (protocol == kProtocol) {
        if (const std::string job = a.hello.at("job"); job != place_.job) {
          refuse(a, cat("rank 0 at ", where(), " is of job '", printable(place_.job), "', ", process.text(), " of '",
                        printable(job), "'"));
          return false;
        }
        why = differs(process, a.hello.at("size"));
      }
      if (!why.empty()) {
        refuse(a, why);
        refuse_all(why);
        disagree(why);
      }
      contacts_[static_cast<size_t>(process.rank)] = contact_from(a.hello);
      handshakes_[static_cast<size_t>(process.rank)] = std::move(a.handshake);
      peer(process.rank) = {std::move(a.socket), process};
      return true;
    } catch (const json::exception&) {
      pending.count_foreign(a);
      return false;
    }
  }

  std::string differs(const RankProcess& p, int size) {
    if (size != place_.size) return cat(p.text(), " is one of ", size, " (WORLD_SIZE), rank 0 one of ", place_.size);
    if (p.rank == 0) return cat(p.text(), " and ", me_.text(), " are both rank 0");
    if (p.rank < 0 || p.rank >= size) return cat(p.text(), " is no rank of ", size);
    if (peer(p.rank).socket.open())
      return cat("there are two of rank ", p.rank, ": ", peer(p.rank).process.text(), ", ", p.text());
    return {};
  }

  static void refuse(const PendingConnections::Arrival& a, const std::string& why) {
    a.handshake.send_answer(a.socket.descriptor(), {{"refused", why}}, steady_seconds() + 1);
  }

  void refuse_all(const std::string& why) {
    for (int r = 1; r < place_.size; ++r) {
      if (peer(r).socket.open()) answer(r, {{"refused", why}}, 1);
    }
  }

  std::string absent(const std::string& strangers) const {
    std::string out;
    for (size_t r = 1; r < peers_.size(); ++r) {
      if (!peers_[r].socket.open()) out += cat(out.empty() ? "" : ", ", r);
    }
    return cat("of ", place_.size, " ranks these did not connect to rank 0 at ", where(), " within ", connect_timeout_,
               " s: ", out, strangers.empty() ? "" : "; ", strangers);
  }

  // ---- ranks other than 0
  void join() {
    const Listener l = listen_on(loopback_ ? INADDR_LOOPBACK : INADDR_ANY, 0, SOMAXCONN);
    if (!l.socket.open()) disagree(cat("no port to listen on: ", std::strerror(errno)));
    std::string key;
    try {
      const json welcome = enter(l.port);
      key = handshake_key(access_, cat("ranks to each other, ", welcome.at("secret").get<std::string>()));
      for (const json& c : welcome.at("ranks")) contacts_.push_back(contact_from(c));
      check_directory();
    } catch (const json::exception&) {
      foreign_first();
    }
    for (int r = 0; r < place_.size; ++r) peer(r).process = contacts_[static_cast<size_t>(r)].process;
    until_ = steady_seconds() + mesh_;
    for (int r = 1; r < place_.rank; ++r) reach(r, key);
    PendingConnections pending(l.socket.descriptor(), key, place_.size);
    for (int missing = place_.size - 1 - place_.rank; missing > 0;) {
      std::vector<pollfd> first{{peer(0).socket.descriptor(), POLLRDHUP, 0}};
      for (PendingConnections::Arrival& a : pending.wait(0.5, first)) {
        if (receive(a)) --missing;
      }
      require_higher_ranks();
    }
  }

  void check_directory() const {
    if (contacts_.size() != peers_.size()) foreign_first();
    for (size_t r = 0; r < contacts_.size(); ++r) {
      if (contacts_[r].process.rank != static_cast<int>(r)) foreign_first();
    }
  }

  [[noreturn]] void foreign_first() const { disagree(cat("what answers at ", where(), " is no rank of this program")); }

  // Connects to rank 0 and returns its answer, which arrives when all ranks are connected. Another program may
  // answer at rank 0's port before rank 0 listens there, so this rank tries again for kWrongSeconds.
  json enter(int port) {
    std::string why;
    double closed = 0, wrong = 0;  // times: rank 0 closed the connection; another program began to answer. 0: neither
    while (steady_seconds() < until_) {
      why.clear();
      FrameResult result = FrameResult::late;
      for (const std::string& address : host_addresses(place_.host, why)) {
        Socket s = dial(address, place_.port, kDialSeconds);
        if (!s.open()) continue;
        closed = 0;
        json welcome;
        result = ask(s, port, welcome);
        if (result == FrameResult::closed) closed = steady_seconds();
        if (result != FrameResult::frame) continue;  // rank 0 is not ready yet, or lost
        if (welcome.contains("refused")) disagree(printable(welcome.at("refused").get<std::string>()));
        peer(0).socket = std::move(s);
        return welcome;
      }
      if (closed > 0 && steady_seconds() - closed > kGoneSeconds) left(cat("rank 0 at ", where()));
      const bool other = result == FrameResult::foreign || result == FrameResult::unproven;
      wrong = !other ? 0 : wrong > 0 ? wrong : steady_seconds();
      if (other && steady_seconds() - wrong > kWrongSeconds) {
        if (result == FrameResult::unproven) tokens_differ(me_, where());
        foreign_first();
      }
      std::this_thread::sleep_for(std::chrono::duration<double>(other ? kWrongRetrySeconds : kRetrySeconds));
    }
    missing_ranks(cat("rank ", place_.rank, " finds no rank 0 at ", where(), " within ", connect_timeout_, " s", why));
  }

  FrameResult ask(const Socket& s, int port, json& welcome) {
    json hello = to_json({me_, port, own_addresses(s)});
    hello.update({{"protocol", kProtocol}, {"size", place_.size}, {"job", place_.job}});
    Handshake handshake(entrance_key());
    const FrameResult sent =
        handshake.send_hello(s.descriptor(), hello, std::min(until_, steady_seconds() + kHelloSeconds));
    if (sent != FrameResult::frame) return sent;
    return handshake.read_answer(s.descriptor(), welcome, until_ + kHelloSeconds, kMostDirectory);
  }

  // Returns the addresses at which other machines reach this one. The first is the local address of the connection to
  // rank 0.
  std::vector<std::string> own_addresses(const Socket& to_first) const {
    if (loopback_) return {"127.0.0.1"};
    std::vector<std::string> out = machine_addresses();
    const std::string nearest = local_address(to_first.descriptor());
    if (!loopback(nearest)) out.insert(out.begin(), nearest);
    if (out.empty()) out.push_back("127.0.0.1");
    return out;
  }

  void reach(int rank, const std::string& key) {
    const Contact& c = contacts_[static_cast<size_t>(rank)];
    while (steady_seconds() < until_) {
      for (const std::string& address : c.addresses) {
        Socket s = dial(address, c.port, kDialSeconds);
        if (!s.open()) continue;
        // A failure is not an error: some addresses of a machine may be unreachable or belong to another machine.
        Handshake handshake(key);
        json answer;
        FrameResult result = handshake.send_hello(s.descriptor(), {{"rank", place_.rank}},
                                                  std::min(until_, steady_seconds() + kHelloSeconds));
        if (result == FrameResult::frame) result = handshake.read_answer(s.descriptor(), answer, until_);
        if (result != FrameResult::frame || answer.value("rank", json()) != rank) continue;
        peer(rank).socket = std::move(s);
        return;
      }
      require_root();
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

  bool receive(PendingConnections::Arrival& a) {
    const json said = a.hello.value("rank", json());
    if (!said.is_number_integer() || said <= place_.rank || said >= place_.size) return false;
    const int rank = said.get<int>();
    if (peer(rank).socket.open()) return false;
    if (!a.handshake.send_answer(a.socket.descriptor(), {{"rank", place_.rank}}, until_)) return false;
    peer(rank).socket = std::move(a.socket);
    return true;
  }

  // Fails if rank 0 has disconnected, or if a higher rank does not connect in time.
  void require_higher_ranks() {
    require_root();
    for (int r = place_.rank + 1; r < place_.size && steady_seconds() > until_; ++r) {
      if (!peer(r).socket.open()) left(peer(r).process.text());
    }
  }

  // Fails if rank 0 has disconnected. Rank 0 disconnects when any other rank has left.
  void require_root() {
    if (wait_for(peer(0).socket.descriptor(), POLLRDHUP, 0) > 0) left(peer(0).process.text());
  }

  const TcpEndpoint& place_;
  const RankAccess& access_;
  const RankProcess me_;
  const uint32_t loopback_;
  const double connect_timeout_;
  const double mesh_;  // timeout in seconds for the connections between ranks, after rank 0 has sent the directory
  double until_;
  std::vector<TcpPeer> peers_;
  std::vector<Contact> contacts_;      // indexed by rank
  std::vector<Handshake> handshakes_;  // handshakes of rank 0 with each rank
};

}  // namespace

std::vector<TcpPeer> rendezvous_by_tcp(const TcpEndpoint& place, const RankAccess& access, double connect_timeout,
                                       double heartbeat_timeout) {
  return TcpRendezvous(place, access, connect_timeout, heartbeat_timeout).meet();
}

}  // namespace amp
