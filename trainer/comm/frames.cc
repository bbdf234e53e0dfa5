// Reads and writes frames on non-blocking sockets; poll() waits at most until the deadline. The mark and the length are
// checked before the body is read, so bytes from another program are neither parsed nor stored.
#include "trainer/comm/frames.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/steady_seconds.h"
#include "trainer/comm/sockets.h"

namespace amp {

namespace {

constexpr char kMark[] = "AMPRANK\n";
constexpr size_t kMarkBytes = 8, kLengthBytes = 4;

FrameResult read_bytes(int socket, char* to, size_t bytes, double until) {
  for (size_t n = 0; n < bytes;) {
    const ssize_t got = ::recv(socket, to + n, bytes - n, MSG_DONTWAIT);
    if (got > 0) {
      n += static_cast<size_t>(got);
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) {
      return FrameResult::closed;
    } else {
      const double left = until - steady_seconds();
      if (left <= 0) return FrameResult::late;
      wait_for(socket, POLLIN, left);
    }
  }
  return FrameResult::frame;
}

}  // namespace

bool send_frame(int socket, const nlohmann::json& json, double until) {
  const std::string body = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string text(kMark, kMarkBytes);
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(body.size() >> shift & 255);
  text += body;
  for (size_t n = 0; n < text.size();) {
    const ssize_t sent = ::send(socket, text.data() + n, text.size() - n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      n += static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      const double left = until - steady_seconds();
      if (left <= 0) return false;
      wait_for(socket, POLLOUT, left);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

FrameResult read_frame(int socket, nlohmann::json& json, double until, size_t most) {
  char head[kMarkBytes + kLengthBytes];
  // The head is read byte by byte, so that a foreign message shorter than a head is recognized by its first bytes.
  for (size_t n = 0; n < sizeof head; ++n) {
    if (const FrameResult h = read_bytes(socket, head + n, 1, until); h != FrameResult::frame) return h;
    if (n < kMarkBytes && head[n] != kMark[n]) return FrameResult::foreign;
  }
  size_t length = 0;
  for (size_t i = kMarkBytes; i < sizeof head; ++i) length = length << 8 | static_cast<unsigned char>(head[i]);
  if (length > most) return FrameResult::foreign;
  std::string body;
  // The buffer grows with the received bytes, so a false length cannot allocate memory.
  for (char part[4096]; body.size() < length;) {
    const size_t n = std::min(sizeof part, length - body.size());
    if (const FrameResult h = read_bytes(socket, part, n, until); h != FrameResult::frame) return h;
    body.append(part, n);
  }
  json = nlohmann::json::parse(body, nullptr, false);
  return json.is_object() ? FrameResult::frame : FrameResult::foreign;
}

}  // namespace amp
