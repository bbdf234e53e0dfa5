// What ranks need of TCP over IPv4.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace amp {

// A socket's descriptor, closed with the object; -1: none.
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

// Port 0: one that the system chooses. Not open where that fails: errno says why.
Listener listen_on(uint32_t address, int port, int backlog);
// A connection that does not block; not open where nobody answers within so many seconds.
Socket dial(const std::string& address, int port, double seconds);
// Somebody who waits at a listener; not open where nobody does.
Socket accepted(const Listener& listener);

int wait_for(int socket, short events, double seconds);  // poll() of one
std::vector<std::string> machine_addresses();            // without loopback ones
std::string shared_secret();                             // 32 digits; "" where the system has no random numbers

}  // namespace amp
