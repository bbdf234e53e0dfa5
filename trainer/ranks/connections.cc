#include "trainer/ranks/connections.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"

namespace amp {

namespace {

using Seconds = std::chrono::duration<double>;
using nlohmann::json;

constexpr double kPatience = 30;            // seconds until all ranks have connected
constexpr size_t kLongestLine = 64 * 1024;  // what is longer is not ours

double clock_seconds() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

[[noreturn]] void unreachable(const std::string& why) {
  fail(Exit::distributed, "E_RANK_LOST", cat("the ranks do not reach each other: ", why),
       "all ranks need a TCP connection to the first one's machine, on a port that the system chooses");
}

int wait_for(int socket, short events, double seconds) {
  pollfd p{socket, events, 0};
  return ::poll(&p, 1, std::max(0, static_cast<int>(seconds * 1000)));
}

std::vector<std::string> addresses() {
  std::vector<std::string> out;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return out;
  for (const ifaddrs* a = all; a; a = a->ifa_next) {
    if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET || (a->ifa_flags & IFF_LOOPBACK)) continue;
    char text[INET_ADDRSTRLEN];
    const auto* const in = reinterpret_cast<const sockaddr_in*>(a->ifa_addr);
    if (::inet_ntop(AF_INET, &in->sin_addr, text, sizeof text)) out.emplace_back(text);
  }
  ::freeifaddrs(all);
  return out;
}

struct Listener {
  LineSocket socket;
  int port = 0;
};

Listener listen_on(uint32_t address, int backlog) {
  Listener l{LineSocket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), 0};
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(address);
  socklen_t size = sizeof at;
  const int s = l.socket.descriptor();
  if (s < 0 || ::bind(s, reinterpret_cast<sockaddr*>(&at), size) != 0 || ::listen(s, backlog) != 0 ||
      ::getsockname(s, reinterpret_cast<sockaddr*>(&at), &size) != 0)
    unreachable(cat("no port to listen on: ", std::strerror(errno)));
  l.port = ntohs(at.sin_port);
  return l;
}

std::string secret() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) unreachable("no random numbers");
  std::string out;
  for (const unsigned char b : bytes) {
    out += "0123456789abcdef"[b >> 4];
    out += "0123456789abcdef"[b & 15];
  }
  return out;
}

// The one line that a connection begins with, if it comes in time.
std::optional<json> first_line(LineSocket& socket, double until) {
  while (!socket.closed() && clock_seconds() < until) {
    wait_for(socket.descriptor(), POLLIN, until - clock_seconds());
    for (json& line : socket.receive()) return std::move(line);
  }
  return {};
}

// Whoever listens, on one of these addresses. A machine may have some that lead nowhere.
LineSocket reach(const std::vector<std::string>& where, int port, double until) {
  while (clock_seconds() < until) {
    for (const std::string& address : where) {
      LineSocket s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      sockaddr_in at = {};
      at.sin_family = AF_INET;
      at.sin_port = htons(static_cast<uint16_t>(port));
      if (s.descriptor() < 0 || ::inet_pton(AF_INET, address.c_str(), &at.sin_addr) != 1) continue;
      int failed = 0;
      socklen_t size = sizeof failed;
      if (::connect(s.descriptor(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) {
        if (errno != EINPROGRESS || wait_for(s.descriptor(), POLLOUT, 2) != 1) continue;
        if (::getsockopt(s.descriptor(), SOL_SOCKET, SO_ERROR, &failed, &size) != 0 || failed) continue;
      }
      return s;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  unreachable("the first one does not answer");
}

std::vector<Connected> accept_all(const LineSocket& listener, const std::string& token, int size) {
  std::vector<Connected> out(static_cast<size_t>(size - 1));
  const double until = clock_seconds() + kPatience;
  for (int missing = size - 1; missing > 0;) {
    if (clock_seconds() > until) unreachable(cat(missing, " of ", size - 1, " did not connect"));
    if (wait_for(listener.descriptor(), POLLIN, 1) != 1) continue;
    LineSocket s(::accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (s.descriptor() < 0) continue;
    const std::optional<json> hello = first_line(s, std::min(until, clock_seconds() + 5));
    if (!hello || !hello->is_object() || hello->value("secret", "") != token) continue;  // a stranger
    const int rank = hello->value("rank", 0);
    if (rank < 1 || rank >= size) continue;
    Connected& c = out[static_cast<size_t>(rank - 1)];
    if (c.socket.descriptor() >= 0) continue;
    c = {std::move(s), {rank, hello->value("host", ""), hello->value("pid", int64_t{0})}};
    --missing;
  }
  return out;
}

}  // namespace

LineSocket::LineSocket(LineSocket&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), closed_(other.closed_), pending_(std::move(other.pending_)) {}

LineSocket& LineSocket::operator=(LineSocket&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(closed_, other.closed_);
  std::swap(pending_, other.pending_);
  return *this;
}

LineSocket::~LineSocket() {
  if (socket_ >= 0) ::close(socket_);
}

bool LineSocket::send(const json& line) {
  const std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
  // What does not fit has a reader who is late: a part of a line would be worse than none.
  const auto sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(text.size());
}

std::vector<json> LineSocket::receive() {
  char buffer[4096];
  while (!closed_) {
    const ssize_t n = ::recv(socket_, buffer, sizeof buffer, MSG_DONTWAIT);
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

void LineSocket::finish_sending() { ::shutdown(socket_, SHUT_WR); }

std::string RankProcess::text() const { return cat("rank ", rank, " (host ", host, ", process ", pid, ")"); }

RankProcess this_process(int rank) {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return {rank, name, ::getpid()};
}

std::vector<Connected> connect_ranks(Collective& ranks) {
  const RankProcess me = this_process(ranks.rank());
  std::string host = me.host;
  ranks.broadcast(host, 0);
  double elsewhere[] = {host == me.host ? 0.0 : 1.0};
  ranks.all_reduce(std::span<double>(elsewhere), Reduction::max);
  const bool one_machine = elsewhere[0] == 0;
  if (ranks.leads()) {
    const Listener l = listen_on(one_machine ? INADDR_LOOPBACK : INADDR_ANY, ranks.size());
    const json contact{{"port", l.port},
                       {"secret", secret()},
                       {"host", me.host},
                       {"pid", me.pid},
                       {"addresses", one_machine ? std::vector<std::string>{"127.0.0.1"} : addresses()}};
    std::string text = contact.dump();
    ranks.broadcast(text, 0);
    return accept_all(l.socket, contact["secret"], ranks.size());
  }
  std::string text;
  ranks.broadcast(text, 0);
  const json contact = json::parse(text);
  auto where = contact.at("addresses").get<std::vector<std::string>>();
  if (host == me.host) where.insert(where.begin(), "127.0.0.1");
  std::vector<Connected> out(1);
  out[0] = {reach(where, contact.at("port"), clock_seconds() + kPatience), {0, contact.at("host"), contact.at("pid")}};
  out[0].socket.send({{"secret", contact.at("secret")}, {"rank", me.rank}, {"host", me.host}, {"pid", me.pid}});
  return out;
}

}  // namespace amp
