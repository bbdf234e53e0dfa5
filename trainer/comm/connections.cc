// Rank 0 listens and broadcasts its addresses, port and a random secret through the communicator. The other ranks
// connect and prove in a handshake that they have the secret and the token, so another program cannot join.

#include "trainer/comm/connections.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/steady_seconds.h"
#include "base/sysinfo.h"
#include "trainer/comm/pending_connections.h"

namespace amp {

namespace {

using nlohmann::json;

constexpr size_t kLongestLine = 64 * 1024;  // bytes; longer lines cannot be from this program
constexpr double kChallengeSeconds = 5;     // time in which a listener sends its challenge
constexpr double kRefusedSeconds = 2;       // time after which a listener's refusal of this rank is an error

[[noreturn]] void unreachable(const std::string& why) {
  fail(Exit::distributed, "E_RANK_LOST", cat("the ranks do not reach each other: ", why),
       "all ranks need a TCP connection to the first one's machine, on a port that the system chooses");
}

void look_for_gone(const Communicator& ranks) {
  if (const std::string who = ranks.lost_rank(); !who.empty())
    fail(Exit::distributed, "E_RANK_LOST", cat(who, " left before all ranks were connected"),
         "its own messages give the reason");
}

// Returns the rank that a hello identifies, or empty if there is no such rank.
std::optional<RankProcess> introduced(const json& hello, int size) {
  const auto member = [&](const char* key) { return hello.contains(key) ? hello[key] : json(); };
  const json rank = member("rank"), host = member("host"), pid = member("pid");
  if (!rank.is_number_integer() || !host.is_string() || !pid.is_number_integer()) return {};
  const auto r = rank.get<int64_t>();
  if (r < 1 || r >= size) return {};
  return RankProcess{static_cast<int>(r), host.get<std::string>(), pid.get<int64_t>()};
}

std::string heartbeat_key(const RankAccess& access, const std::string& secret) {
  return handshake_key(access, cat("heartbeats, ", secret));
}

// Connects to the first address in `where` whose listener has the key; some addresses of a machine may be unreachable
// or belong to another machine. Throws E_RANK_LOST if no such listener answers before `until`, and E_RANKS if a
// listener still refuses the proof after kRefusedSeconds.
LineSocket reach(const Communicator& ranks, const std::vector<std::string>& where, int port, const std::string& key,
                 double until) {
  const RankProcess me = this_process(ranks.rank());
  const json hello{{"rank", me.rank}, {"host", me.host}, {"pid", me.pid}};
  for (double refused = 0; steady_seconds() < until;) {
    look_for_gone(ranks);
    FrameResult last = FrameResult::closed;
    for (const std::string& address : where) {
      Socket s = dial(address, port, 2);
      if (!s.open()) continue;
      Handshake handshake(key);
      json answer;
      FrameResult result =
          handshake.send_hello(s.descriptor(), hello, std::min(until, steady_seconds() + kChallengeSeconds));
      if (result == FrameResult::frame) result = handshake.read_answer(s.descriptor(), answer, until);
      if (result == FrameResult::frame) return LineSocket(std::move(s));
      if (result == FrameResult::unproven) last = result;
    }
    if (last != FrameResult::unproven)
      refused = 0;
    else if (refused == 0)
      refused = steady_seconds();
    else if (steady_seconds() - refused > kRefusedSeconds)
      tokens_differ(me, cat(where.front(), ":", port));
    std::this_thread::sleep_for(std::chrono::milliseconds(last == FrameResult::unproven ? 500 : 50));
  }
  unreachable("the first one does not answer");
}

std::vector<Connected> accept_all(const Communicator& ranks, const RankAccess& access, const Listener& listener,
                                  const std::string& key, double until) {
  const int size = ranks.size();
  std::vector<Connected> out(static_cast<size_t>(size - 1));
  PendingConnections pending(listener.socket.descriptor(), key, size);
  std::vector<pollfd> no_others;
  for (int missing = size - 1; missing > 0;) {
    if (steady_seconds() > until) {
      const std::string strangers = pending.strangers();
      unreachable(cat(missing, " of ", size - 1, " did not connect", strangers.empty() ? "" : "; ", strangers));
    }
    look_for_gone(ranks);
    for (PendingConnections::Arrival& a : pending.wait(0.2, no_others)) {
      const std::optional<RankProcess> from = introduced(a.hello, size);
      if (!from || out[static_cast<size_t>(from->rank - 1)].socket.descriptor() >= 0) {
        pending.count_foreign(a);
      } else if (a.handshake.send_answer(a.socket.descriptor(), {{"rank", 0}}, steady_seconds() + 1)) {
        out[static_cast<size_t>(from->rank - 1)] = {LineSocket(std::move(a.socket)), *from};
        --missing;
      }
    }
  }
  if (const std::string strangers = pending.strangers(); !strangers.empty()) access.log.note(strangers);
  return out;
}

}  // namespace

bool LineSocket::send(const json& line) {
  const std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
  // A full buffer means that the peer does not read. A partially sent line then counts as a failure.
  const auto sent = ::send(descriptor(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(text.size());
}

std::vector<json> LineSocket::receive() {
  char buffer[4096];
  while (!closed_) {
    const ssize_t n = ::recv(descriptor(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || pending_.size() > kLongestLine) {
      closed_ = true;
      break;
    }
    pending_.append(buffer, static_cast<size_t>(n));
  }
  std::vector<json> out;
  for (size_t end; (end = pending_.find('\n')) != std::string::npos; pending_.erase(0, end + 1)) {
    json line = json::parse(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (line.is_object()) out.push_back(std::move(line));
  }
  return out;
}

void LineSocket::finish_sending() { ::shutdown(descriptor(), SHUT_WR); }

std::string RankProcess::text() const { return cat("rank ", rank, " (host ", host, ", process ", pid, ")"); }

RankProcess this_process(int rank) {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return {rank, name, ::getpid()};
}

void tokens_differ(const RankProcess& me, const std::string& where) {
  fail(Exit::distributed, "E_RANKS",
       cat("the tokens differ: what listens at ", where, " does not have the token of ", me.text(),
           ", or only one of them has a token"),
       "all ranks of a run need the same ONNX_AMP_RANK_TOKEN or `rank_token_file`, or none of them");
}

std::vector<Connected> connect_ranks(Communicator& ranks, const RankAccess& access, double connect_timeout) {
  const double until = steady_seconds() + connect_timeout;
  const RankProcess me = this_process(ranks.rank());
  const std::string here = loopback_identity();
  std::string first = here;
  ranks.broadcast(first, 0);
  double elsewhere[] = {first == here ? 0.0 : 1.0};
  ranks.all_reduce(std::span<double>(elsewhere), Reduction::max);
  const bool one_machine = elsewhere[0] == 0;
  if (ranks.is_root()) {
    const Listener l = listen_on(one_machine ? INADDR_LOOPBACK : INADDR_ANY, 0, SOMAXCONN);
    if (!l.socket.open()) unreachable(cat("no port to listen on: ", std::strerror(errno)));
    const std::string secret = shared_secret();
    if (secret.empty()) unreachable("no random numbers");
    const json contact{{"port", l.port},
                       {"secret", secret},
                       {"host", me.host},
                       {"pid", me.pid},
                       {"addresses", one_machine ? std::vector<std::string>{"127.0.0.1"} : machine_addresses()}};
    std::string text = contact.dump();
    ranks.broadcast(text, 0);
    return accept_all(ranks, access, l, heartbeat_key(access, secret), until);
  }
  std::string text;
  ranks.broadcast(text, 0);
  const json contact = json::parse(text);
  auto where = contact.at("addresses").get<std::vector<std::string>>();
  if (first == here) where.insert(where.begin(), "127.0.0.1");
  std::vector<Connected> out(1);
  const std::string key = heartbeat_key(access, contact.at("secret"));
  out[0] = {reach(ranks, where, contact.at("port"), key, until), {0, contact.at("host"), contact.at("pid")}};
  return out;
}

}  // namespace amp
