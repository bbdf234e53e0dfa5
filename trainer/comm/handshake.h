// The handshake by which a process proves to a listener that it belongs to the run, and the listener to the process.
// Both have the same key; the key itself is never sent.
//
//   listener            {"challenge": N}
//   connecting process  {"hello": TEXT, "nonce": M, "proof": hmac(key, "hello", N, M, TEXT)}
//   listener            {"answer": TEXT, "proof": hmac(key, "answer", N, M, TEXT)}
//
// TEXT is JSON as a string, so that the proof covers the very bytes that are parsed. N and M are random numbers that
// are used for one connection only. Therefore a recorded hello or answer is refused on every other connection, and a
// hello cannot be sent back as an answer. The bytes after the handshake are neither encrypted nor authenticated.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "trainer/comm/frames.h"

namespace amp {

// The token by which processes may join a run, and the log of refused connections.
struct RankAccess {
  std::string token;  // the secret that all ranks share. Empty: any process with this program's protocol can join
  Log log = Log();    // receives notes about connections that were not ranks
};

// Returns the key of one kind of connection. A proof made with it is not valid for other kinds of connections.
std::string handshake_key(const RankAccess& access, const std::string& purpose);

// One handshake, on the side of the listener or of the connecting process.
class Handshake {
 public:
  explicit Handshake(std::string key = {}) : key_(std::move(key)) {}

  // For the listener: send_challenge() does not wait; it returns false if the connection does not take the frame.
  bool send_challenge(int socket);
  // Returns the hello of a frame; empty if the frame does not prove that the sender has the key.
  std::optional<nlohmann::json> proven_hello(const nlohmann::json& frame);
  bool send_answer(int socket, const nlohmann::json& answer, double until) const;  // as send_frame()

  // For the connecting side: waits for the challenge and sends the hello. Returns FrameResult::frame if it was sent.
  FrameResult send_hello(int socket, const nlohmann::json& hello, double until);
  // Returns FrameResult::unproven for a frame of a listener that does not have the key, or that refused this side's
  // proof.
  FrameResult read_answer(int socket, nlohmann::json& answer, double until, size_t most = kMostFrame) const;

 private:
  std::string proof(const char* direction, const std::string& text) const;

  std::string key_, challenge_, nonce_;
};

}  // namespace amp
