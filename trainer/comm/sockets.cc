// Thin wrappers of the POSIX socket calls. All sockets are non-blocking and closed on exec; waiting is done with
// poll().

#include "trainer/comm/sockets.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/error.h"
#include "base/hex.h"

namespace amp {

namespace {

std::string text_of_address(const sockaddr_in& at) {
  char text[INET_ADDRSTRLEN];
  return at.sin_family == AF_INET && ::inet_ntop(AF_INET, &at.sin_addr, text, sizeof text) ? text : "";
}

std::string end_of(int socket, decltype(::getpeername)* which) {
  sockaddr_in at = {};
  socklen_t size = sizeof at;
  return which(socket, reinterpret_cast<sockaddr*>(&at), &size) == 0 ? text_of_address(at) : std::string();
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int wait_for(int socket, short events, double seconds) {
  pollfd p{socket, events, 0};
  return ::poll(&p, 1, std::max(0, static_cast<int>(seconds * 1000)));
}

std::vector<std::string> machine_addresses() {
  std::vector<std::string> out;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return out;
  for (const ifaddrs* a = all; a; a = a->ifa_next) {
    if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET || (a->ifa_flags & IFF_LOOPBACK)) continue;
    out.push_back(text_of_address(*reinterpret_cast<const sockaddr_in*>(a->ifa_addr)));
  }
  ::freeifaddrs(all);
  return out;
}

std::vector<std::string> host_addresses(const std::string& host, std::string& why) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  std::vector<std::string> out;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    why = cat(": ", ::gai_strerror(error));
    return out;
  }
  for (const addrinfo* a = found; a; a = a->ai_next)
    out.push_back(text_of_address(*reinterpret_cast<const sockaddr_in*>(a->ai_addr)));
  ::freeaddrinfo(found);
  return out;
}

std::string local_address(int socket) { return end_of(socket, ::getsockname); }
std::string peer_address(int socket) { return end_of(socket, ::getpeername); }

Listener listen_on(uint32_t address, int port, int backlog) {
  Listener l{Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), 0};
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(address);
  at.sin_port = htons(static_cast<uint16_t>(port));
  socklen_t size = sizeof at;
  const int s = l.socket.descriptor(), yes = 1;
  // SO_REUSEADDR permits a port whose previous connections are in TIME_WAIT.
  if (s >= 0 && port > 0) ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (s < 0 || ::bind(s, reinterpret_cast<sockaddr*>(&at), size) != 0 || ::listen(s, backlog) != 0 ||
      ::getsockname(s, reinterpret_cast<sockaddr*>(&at), &size) != 0) {
    const int why = errno;
    l.socket = Socket();
    errno = why;
    return l;
  }
  l.port = ntohs(at.sin_port);
  return l;
}

Socket dial(const std::string& address, int port, double seconds) {
  Socket s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  if (!s.open() || ::inet_pton(AF_INET, address.c_str(), &at.sin_addr) != 1) return Socket();
  if (::connect(s.descriptor(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) {
    int failed = 0;
    socklen_t size = sizeof failed;
    if (errno != EINPROGRESS || wait_for(s.descriptor(), POLLOUT, seconds) != 1) return Socket();
    if (::getsockopt(s.descriptor(), SOL_SOCKET, SO_ERROR, &failed, &size) != 0 || failed) return Socket();
  }
  // While no process listens at the port, the system may give this socket the same port as its own (a TCP
  // self-connect).
  sockaddr_in own = {};
  socklen_t size = sizeof own;
  if (::getsockname(s.descriptor(), reinterpret_cast<sockaddr*>(&own), &size) != 0) return Socket();
  if (own.sin_port == at.sin_port && own.sin_addr.s_addr == at.sin_addr.s_addr) return Socket();
  return s;
}

Socket accepted(int listener) { return Socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)); }

std::string shared_secret() {
  std::array<uint8_t, 16> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return {};
  return to_hex(bytes);
}

}  // namespace amp
