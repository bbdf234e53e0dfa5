// Reads and writes frames on non-blocking sockets; poll() waits at most until the deadline. The mark and the length are
// checked before the body is read, so bytes from another program are neither parsed nor stored.
#include "trainer/comm/frames.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/json_nesting.h"
#include "base/steady_seconds.h"
#include "trainer/comm/sockets.h"

namespace amp {

namespace {

constexpr char kMark[] = "AMPRANK\n";
constexpr size_t kMarkBytes = 8, kLengthBytes = 4;
constexpr size_t kHeadBytes = kMarkBytes + kLengthBytes;

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

size_t FrameReader::length() const {
  size_t n = 0;
  for (size_t i = kMarkBytes; i < kHeadBytes; ++i) n = n << 8 | static_cast<unsigned char>(bytes_[i]);
  return n;
}

bool FrameReader::foreign() const {
  const size_t known = std::min(bytes_.size(), kMarkBytes);
  return bytes_.compare(0, known, kMark, known) != 0 || (bytes_.size() >= kHeadBytes && length() > most_);
}

FrameResult FrameReader::read(int socket, nlohmann::json& json) {
  // The buffer grows with the received bytes, so a false length cannot allocate memory.
  char part[4096];
  while (true) {
    const size_t end = bytes_.size() < kHeadBytes ? kHeadBytes : kHeadBytes + length();
    if (bytes_.size() == end) break;
    const ssize_t got = ::recv(socket, part, std::min(sizeof part, end - bytes_.size()), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return FrameResult::late;
    if (got <= 0) return FrameResult::closed;
    bytes_.append(part, static_cast<size_t>(got));
    if (foreign()) return FrameResult::foreign;
  }
  json = parse_json(std::string_view(bytes_).substr(kHeadBytes));
  return json.is_object() ? FrameResult::frame : FrameResult::foreign;
}

FrameResult read_frame(int socket, nlohmann::json& json, double until, size_t most) {
  FrameReader reader(most);
  while (true) {
    const FrameResult result = reader.read(socket, json);
    const double left = until - steady_seconds();
    if (result != FrameResult::late || left <= 0) return result;
    wait_for(socket, POLLIN, left);
  }
}

}  // namespace amp
