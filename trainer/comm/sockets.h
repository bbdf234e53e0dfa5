// TCP over IPv4 for the ranks of a run.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace amp {

// Owns a socket's descriptor; -1: not open.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();

  int descriptor() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

struct Listener {
  Socket socket;
  int port = 0;
};

// Listens at `port`; if that is 0, at a port that the system chooses. On failure the returned socket is not open, and
// errno has the reason.
Listener listen_on(uint32_t address, int port, int backlog);
// Returns a non-blocking connection. It is not open if there is no answer within `seconds`.
Socket dial(const std::string& address, int port, double seconds);
// Accepts a pending connection of a socket that listens. The returned socket is not open if there is none (errno).
Socket accepted(int listener);

int wait_for(int socket, short events, double seconds);  // poll() of one socket
std::vector<std::string> machine_addresses();            // without loopback addresses
// Returns the addresses of a host. If there are none, `why` has the reason.
std::vector<std::string> host_addresses(const std::string& host, std::string& why);
// Return the addresses of a connection; "" for other sockets than IPv4.
std::string local_address(int socket);
std::string peer_address(int socket);
std::string shared_secret();  // 32 digits; "" if the system has no random numbers

}  // namespace amp
