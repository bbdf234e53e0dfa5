// Limits what strangers can use: the number of pending connections, their time, and the bytes of a frame. If too many
// connections are pending, the oldest is closed: a rank answers at once, and connects again if its connection is
// closed before its hello.

#include "trainer/comm/pending_connections.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/steady_seconds.h"

namespace amp {

namespace {

constexpr double kPendingSeconds = 5;  // time that a peer has for the handshake
constexpr int kMostPending = 128;      // largest number of pending connections in addition to those of expected ranks
constexpr int kAcceptsAtOnce = 64;     // connections accepted at most between two checks of the pending ones

bool out_of_descriptors(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

}  // namespace

PendingConnections::PendingConnections(int listener, std::string key, int expected, std::function<bool(int)> admits)
    : listener_(listener),
      key_(std::move(key)),
      most_(static_cast<size_t>(kMostPending + expected)),
      admits_(std::move(admits)) {}

std::vector<PendingConnections::Arrival> PendingConnections::wait(double seconds, std::vector<pollfd>& watched) {
  std::vector<pollfd> waits = watched;
  waits.push_back({listener_, POLLIN, 0});
  for (const Pending& p : pending_) waits.push_back({p.socket.descriptor(), POLLIN, 0});
  const double limit = pending_.empty() ? seconds : std::min(seconds, pending_.front().until - steady_seconds());
  ::poll(waits.data(), waits.size(), std::max(0, static_cast<int>(limit * 1000) + 1));
  for (size_t i = 0; i < watched.size(); ++i) watched[i].revents = waits[i].revents;
  std::vector<Arrival> out;
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (waits[watched.size() + 1 + i].revents) read(pending_[i], out);
  }
  const double now = steady_seconds();
  for (Pending& p : pending_) {
    if (p.over || p.until > now) continue;
    count(Stranger::silent, p.address);
    p.over = true;
  }
  std::erase_if(pending_, [](const Pending& p) { return p.over; });
  if (waits[watched.size()].revents) accept_new();
  return out;
}

void PendingConnections::read(Pending& p, std::vector<Arrival>& out) {
  nlohmann::json frame;
  const FrameResult result = p.reader.read(p.socket.descriptor(), frame);
  if (result == FrameResult::late) return;
  p.over = true;
  if (result != FrameResult::frame)
    return count(result == FrameResult::closed ? Stranger::left : Stranger::foreign, p.address);
  if (auto hello = p.handshake.proven_hello(frame)) {
    out.push_back({std::move(p.socket), std::move(p.handshake), std::move(*hello), std::move(p.address)});
    return;
  }
  // A rank with another token then ends with an error that names this reason. This frame has no proof: a proof for a
  // stranger's hello would let the stranger guess the token.
  count(Stranger::unproven, p.address);
  send_frame(p.socket.descriptor(), {{"refused", "the proof is wrong"}}, steady_seconds());
}

void PendingConnections::accept_new() {
  for (int n = 0; n < kAcceptsAtOnce; ++n) {
    Socket s = accepted(listener_);
    if (!s.open()) {
      if (!out_of_descriptors(errno)) return;
      // No descriptor is free, so the connection stays in the listener's queue. Without a pause,
      // poll() would return at once.
      if (pending_.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      drop_oldest();
      return;
    }
    std::string address = peer_address(s.descriptor());
    Handshake handshake(key_);
    if (admits_ && !admits_(s.descriptor())) {
      count(Stranger::unproven, address);
      continue;
    }
    if (!handshake.send_challenge(s.descriptor())) {
      count(Stranger::left, address);
      continue;
    }
    if (pending_.size() >= most_) drop_oldest();
    pending_.push_back(
        {std::move(s), std::move(handshake), FrameReader(), steady_seconds() + kPendingSeconds, std::move(address)});
  }
}

void PendingConnections::drop_oldest() {
  if (pending_.empty()) return;
  count(Stranger::silent, pending_.front().address);
  pending_.pop_front();
}

void PendingConnections::count(Stranger kind, const std::string& address) {
  ++counts_[static_cast<size_t>(kind)];
  last_address_ = address;
}

std::string PendingConnections::strangers() const {
  std::array<int64_t, 4> counts = counts_;
  counts[static_cast<size_t>(Stranger::silent)] += static_cast<int64_t>(pending_.size());
  int64_t all = 0;
  std::string kinds;
  for (const auto& [kind, words] : {std::pair{Stranger::silent, " silent"},
                                    {Stranger::left, " closed before the handshake"},
                                    {Stranger::foreign, " with bytes of other programs"},
                                    {Stranger::unproven, " without the run's token"}}) {
    const int64_t n = counts[static_cast<size_t>(kind)];
    if (n > 0) kinds += cat(kinds.empty() ? "" : ", ", n, words);
    all += n;
  }
  if (all == 0) return {};
  const std::string& address = pending_.empty() ? last_address_ : pending_.back().address;
  return cat(all,
             all == 1 ? " connection was not from a rank of this run: "
                      : " connections were not from ranks of "
                        "this run: ",
             kinds, address.empty() ? std::string() : cat("; the last one from ", address));
}

}  // namespace amp
