// Rank 0 listens and broadcasts its addresses, port and a random secret through the communicator. The other ranks
// connect and send the secret. Connections that do not send it are closed, so another program cannot join.

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

namespace amp {

namespace {

using nlohmann::json;

constexpr size_t kLongestLine = 64 * 1024;  // bytes; longer lines cannot be from this program

[[noreturn]] void unreachable(const std::string& why) {
  fail(Exit::distributed, "E_RANK_LOST", cat("the ranks do not reach each other: ", why),
       "all ranks need a TCP connection to the first one's machine, on a port that the system chooses");
}

void look_for_gone(const Communicator& ranks) {
  if (const std::string who = ranks.gone(); !who.empty())
    fail(Exit::distributed, "E_RANK_LOST", cat(who, " left before all ranks were connected"),
         "its own messages say why");
}

// Returns the rank that a greeting identifies, or empty if the greeting is not from an expected rank of this run.
std::optional<RankProcess> introduced(const json& hello, const std::string& secret, int size) {
  const auto member = [&](const char* key) { return hello.is_object() && hello.contains(key) ? hello[key] : json(); };
  const json said = member("secret"), rank = member("rank"), host = member("host"), pid = member("pid");
  if (said != secret || !rank.is_number_integer() || !host.is_string() || !pid.is_number_integer()) return {};
  const auto r = rank.get<int64_t>();
  if (r < 1 || r >= size) return {};
  return RankProcess{static_cast<int>(r), host.get<std::string>(), pid.get<int64_t>()};
}

// Connects to the first address in `where` that answers; some addresses of a machine may be unreachable. Throws
// E_RANK_LOST if none answers until `until`.
LineSocket reach(const Communicator& ranks, const std::vector<std::string>& where, int port, double until) {
  while (steady_seconds() < until) {
    look_for_gone(ranks);
    for (const std::string& address : where) {
      if (Socket s = dial(address, port, 2); s.open()) return LineSocket(std::move(s));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  unreachable("the first one does not answer");
}

std::vector<Connected> accept_all(const Communicator& ranks, const Listener& listener, const std::string& token,
                                  double until) {
  const int size = ranks.size();
  std::vector<Connected> out(static_cast<size_t>(size - 1));
  for (int missing = size - 1; missing > 0;) {
    if (steady_seconds() > until) unreachable(cat(missing, " of ", size - 1, " did not connect"));
    look_for_gone(ranks);
    if (wait_for(listener.socket.descriptor(), POLLIN, 0.2) != 1) continue;
    LineSocket s(accepted(listener));
    if (s.descriptor() < 0) continue;
    const std::optional<json> hello = s.first(std::min(until, steady_seconds() + 5));
    const std::optional<RankProcess> from = hello ? introduced(*hello, token, size) : std::nullopt;
    if (!from) continue;
    Connected& c = out[static_cast<size_t>(from->rank - 1)];
    if (c.socket.descriptor() >= 0) continue;
    c = {std::move(s), *from};
    --missing;
  }
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

std::optional<json> LineSocket::first(double until) {
  while (!closed_ && steady_seconds() < until) {
    wait_for(descriptor(), POLLIN, until - steady_seconds());
    for (json& line : receive()) return std::move(line);
  }
  return {};
}

void LineSocket::finish_sending() { ::shutdown(descriptor(), SHUT_WR); }

std::string RankProcess::text() const { return cat("rank ", rank, " (host ", host, ", process ", pid, ")"); }

RankProcess this_process(int rank) {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return {rank, name, ::getpid()};
}

std::vector<Connected> connect_ranks(Communicator& ranks, double connect_timeout) {
  const double until = steady_seconds() + connect_timeout;
  const RankProcess me = this_process(ranks.rank());
  const std::string here = loopback_identity();
  std::string first = here;
  ranks.broadcast(first, 0);
  double elsewhere[] = {first == here ? 0.0 : 1.0};
  ranks.all_reduce(std::span<double>(elsewhere), Reduction::max);
  const bool one_machine = elsewhere[0] == 0;
  if (ranks.is_root()) {
    const Listener l = listen_on(one_machine ? INADDR_LOOPBACK : INADDR_ANY, 0, ranks.size());
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
    return accept_all(ranks, l, contact["secret"], until);
  }
  std::string text;
  ranks.broadcast(text, 0);
  const json contact = json::parse(text);
  auto where = contact.at("addresses").get<std::vector<std::string>>();
  if (first == here) where.insert(where.begin(), "127.0.0.1");
  std::vector<Connected> out(1);
  out[0] = {reach(ranks, where, contact.at("port"), until), {0, contact.at("host"), contact.at("pid")}};
  out[0].socket.send({{"secret", contact.at("secret")}, {"rank", me.rank}, {"host", me.host}, {"pid", me.pid}});
  return out;
}

}  // namespace amp
