// Proofs are HMAC-SHA256 of the direction, both random numbers and the text. A frame of a stranger has the same limits
// as a frame of a rank, and is parsed only after its proof was verified.

#include "trainer/comm/handshake.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/json_nesting.h"
#include "base/steady_seconds.h"
#include "trainer/comm/sockets.h"

namespace amp {

namespace {

using nlohmann::json;

constexpr size_t kNonceDigits = 32;

// Returns a member of the frame that is a text; "" if there is none.
std::string text_of(const json& frame, const char* name) {
  const auto found = frame.find(name);
  return found != frame.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string dumped(const json& j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

std::string handshake_key(const RankAccess& access, const std::string& purpose) {
  return hmac_sha256(access.token, cat("onnx-amp-finetune: ", purpose));
}

// The numbers have a fixed length, so the message can be divided into its parts in only one way.
std::string Handshake::proof(const char* direction, const std::string& text) const {
  return hmac_sha256(key_, cat(direction, ' ', challenge_, ' ', nonce_, ' ', text));
}

bool Handshake::send_challenge(int socket) {
  challenge_ = shared_secret();
  return !challenge_.empty() && send_frame(socket, {{"challenge", challenge_}}, steady_seconds());
}

std::optional<json> Handshake::proven_hello(const json& frame) {
  const std::string text = text_of(frame, "hello");
  nonce_ = text_of(frame, "nonce");
  if (nonce_.size() != kNonceDigits || !equal_secrets(text_of(frame, "proof"), proof("hello", text))) return {};
  json hello = parse_json(text);
  return hello.is_object() ? std::optional(std::move(hello)) : std::nullopt;
}

bool Handshake::send_answer(int socket, const json& answer, double until) const {
  const std::string text = dumped(answer);
  return send_frame(socket, {{"answer", text}, {"proof", proof("answer", text)}}, until);
}

FrameResult Handshake::send_hello(int socket, const json& hello, double until) {
  json frame;
  if (const FrameResult r = read_frame(socket, frame, until); r != FrameResult::frame) return r;
  challenge_ = text_of(frame, "challenge");
  nonce_ = shared_secret();
  if (challenge_.size() != kNonceDigits || nonce_.empty()) return FrameResult::foreign;
  const std::string text = dumped(hello);
  const json sent{{"hello", text}, {"nonce", nonce_}, {"proof", proof("hello", text)}};
  return send_frame(socket, sent, until) ? FrameResult::frame : FrameResult::closed;
}

FrameResult Handshake::read_answer(int socket, json& answer, double until, size_t most) const {
  json frame;
  if (const FrameResult r = read_frame(socket, frame, until, most); r != FrameResult::frame) return r;
  const std::string text = text_of(frame, "answer");
  if (!equal_secrets(text_of(frame, "proof"), proof("answer", text))) return FrameResult::unproven;
  answer = parse_json(text);
  return answer.is_object() ? FrameResult::frame : FrameResult::foreign;
}

}  // namespace amp
