// Fuzzes bytes that another program may send to a port of this program, or to a rank that connects to the wrong port:
// frames of the handshake, and the lines of JSON that ranks exchange as heartbeats. The first byte selects how the
// bytes arrive: at once, or in two parts with a reader between. The sender does not have the key, so none of its
// frames may be accepted as a proof.
#include <sys/socket.h>
#include <unistd.h>

#include "base/steady_seconds.h"
#include "fuzz/fuzz.h"
#include "trainer/comm/connections.h"
#include "trainer/comm/frames.h"
#include "trainer/comm/handshake.h"

namespace {

using namespace amp;

void send_all(const Socket& to, std::string_view bytes) {
  // A full buffer drops the rest, which is as if the stranger had stopped.
  if (!bytes.empty())
    static_cast<void>(::send(to.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

// Gives read() a connection on which these bytes arrive.
template <class Read>
void receive(std::string_view bytes, bool in_parts, Read&& read) {
  int pair[2];
  fuzz::must(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "no pair of sockets");
  const Socket sender(pair[0]);
  Socket receiver(pair[1]);
  const size_t first = in_parts ? bytes.size() / 2 : bytes.size();
  send_all(sender, bytes.substr(0, first));
  read(receiver, [&] {
    send_all(sender, bytes.substr(first));
    ::shutdown(sender.descriptor(), SHUT_WR);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool in_parts = data[0] % 2 == 1;
  const std::string_view bytes = fuzz::text(data + 1, size - 1);
  return fuzz::accepts_or_refuses([&] {
    receive(bytes, in_parts, [&](const Socket& socket, auto&& send_rest) {
      FrameReader reader;
      Handshake listener("key");
      nlohmann::json json;
      fuzz::must(listener.send_challenge(socket.descriptor()), "a challenge is not sent");
      FrameResult result = reader.read(socket.descriptor(), json);
      send_rest();
      if (result == FrameResult::late) result = reader.read(socket.descriptor(), json);
      for (; result == FrameResult::frame; result = FrameReader().read(socket.descriptor(), json)) {
        fuzz::must(json.is_object(), "a frame is no object");
        fuzz::must(!listener.proven_hello(json), "a stranger proves to have the key");
      }
      fuzz::must(result != FrameResult::late, "a closed connection is not noticed");
    });
    receive(bytes, false, [&](const Socket& socket, auto&& send_rest) {
      send_rest();
      Handshake connecting("key");
      nlohmann::json answer;
      const double until = steady_seconds() + 1;
      if (connecting.send_hello(socket.descriptor(), {{"rank", 1}}, until) != FrameResult::frame) return;
      const FrameResult result = connecting.read_answer(socket.descriptor(), answer, until);
      fuzz::must(result != FrameResult::frame, "a stranger answers as if it had the key");
    });
    receive(bytes, in_parts, [&](Socket& socket, auto&& send_rest) {
      LineSocket lines(std::move(socket));
      lines.receive();
      send_rest();
      for (int rounds = 0; !lines.closed(); ++rounds) {
        fuzz::must(rounds < 1000, "a closed connection is not noticed");
        for (const nlohmann::json& line : lines.receive()) fuzz::must(line.is_object(), "a line is no object");
      }
    });
  });
}
