// The TCP connections form a star: rank 0 has one to each other rank. One thread per process sends heartbeats, reads
// the messages of its peers and decides whether a rank is lost. Launchers kill all processes soon after one exits, so
// the error message is printed before any process ends.

#include "trainer/comm/failure_detector.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/steady_seconds.h"
#include "trainer/loop/stop.h"

namespace amp {

namespace {

using nlohmann::json;

// A failing rank reports its error before it exits. Other ranks that fail for the same reason have this many seconds to
// report it themselves. Open MPI kills the remaining processes one second after it detects a failed rank.
constexpr double kGrace = 0.4;
// Time in seconds for which a received stop signal is held back, because a lost rank may be detected meanwhile; see
// pass_stop_on().
constexpr double kLossFirst = 0.1;
constexpr double kConnectSeconds = 5;  // seconds to connect all ranks, in addition to the heartbeat timeout

}  // namespace

class FailureDetector::Channel {
  struct Peer {
    LineSocket socket;
    RankProcess process;
    double last_message = 0;  // time of the last message
    int64_t step = 0;
    std::string phase = "starting", error;
    double failed_at = 0;  // time at which the peer reported its failure; 0 without a report
    bool over = false;     // the peer has finished its work and may disconnect
  };

 public:
  Channel(std::vector<Connected> others, int rank, double heartbeat_timeout, OnLost on_lost)
      : is_root_(rank == 0), rank_(rank), heartbeat_timeout_(heartbeat_timeout), on_lost_(std::move(on_lost)) {
    for (Connected& c : others) {
      peers_.emplace_back();
      peers_.back().socket = std::move(c.socket);
      peers_.back().process = c.process;
    }
    thread_ = std::thread([this] { watch(); });
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
  }

  void doing(int64_t step, const char* phase) {
    step_ = step;
    phase_ = phase;
  }

  void failed(const std::string& why) {
    quiet_ = true;
    send_all({{"error", why.substr(0, 2000)}});
  }

  void end() {
    quiet_ = true;
    send_all({{"over", true}});
  }

 private:
  void send_all(const json& line) {
    const std::lock_guard lock(mutex_);
    for (Peer& p : peers_) p.socket.send(line);
  }

  void watch() {
    const double beat = std::min(0.5, heartbeat_timeout_ / 4);
    double last = steady_seconds(), beaten = 0;
    for (Peer& p : peers_) p.last_message = last;
    while (!stopped_) {
      wait_for_news(std::min(0.1, beat));
      const double now = steady_seconds();
      // A process that was suspended did not read heartbeats meanwhile. So it restarts the timeouts of its peers.
      if (now - last > heartbeat_timeout_ / 2) {
        for (Peer& p : peers_) p.last_message = now;
      }
      last = now;
      if (now - beaten >= beat) {
        beaten = now;
        send_all({{"step", step_.load()}, {"phase", phase_.load()}});
      }
      listen(now);
      if (quiet_) continue;
      if (check_peers(now)) return;
      pass_stop_on(now);
    }
  }

  void wait_for_news(double seconds) {
    std::vector<pollfd> waits;
    for (const Peer& p : peers_) {
      if (!p.socket.closed()) waits.push_back({p.socket.descriptor(), POLLIN, 0});
    }
    ::poll(waits.data(), waits.size(), static_cast<int>(seconds * 1000) + 1);
  }

  void listen(double now) {
    const std::lock_guard lock(mutex_);
    for (Peer& p : peers_) {
      for (const json& line : p.socket.receive()) {
        p.last_message = now;
        p.step = line.value("step", p.step);
        p.phase = line.value("phase", p.phase);
        p.over |= line.contains("over");
        if (line.contains("error")) {
          p.error = line.value("error", "");
          p.failed_at = now;
        }
        if (line.contains("lost") && reported_.empty()) reported_ = line.value("lost", "");
        if (line.contains("stop")) stop_ = line.value("stop", 0);
      }
    }
  }

  // Forwards a stop signal that this process received, and calls on_lost_.stop for a signal that another process
  // received. The signal may come from a launcher that ends the run because a rank failed. Therefore this process
  // forwards it only after kLossFirst seconds, and not at all if a rank reported a failure. ImmediateStop ends this
  // process for its own signal, after a delay.
  void pass_stop_on(double now) {
    const bool failing = std::any_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.failed_at > 0; });
    const int own = ImmediateStop::asked();
    if (asked_at_ == 0 && own != 0) asked_at_ = now;
    const int signal = stop_ != 0 ? stop_ : asked_at_ > 0 && now - asked_at_ >= kLossFirst ? own : 0;
    if (signal == 0 || failing) return;
    if (!passed_on_) send_all({{"stop", signal}});
    passed_on_ = true;
    if (own == 0 && on_lost_.stop) on_lost_.stop(signal);
  }

  // Checks all peers. Returns true if a rank is lost; all processes have then been notified.
  bool check_peers(double now) {
    if (!reported_.empty()) {
      on_lost_.end_process(lost(reported_));
      return true;
    }
    for (const Peer& p : peers_) {
      const std::string how = lost_by(p, now);
      if (how.empty()) continue;
      const Error error = lost(cat(p.process.text(), " ", how, " at step ", p.step, ", ", p.phase,
                                   p.error.empty() ? std::string() : cat("; its last error: ", p.error)));
      // A launcher may kill all processes when one exits. Therefore the message is printed before the other processes
      // exit.
      if (is_root_ || rank_ == 1) on_lost_.report(error);
      if (is_root_) spread(error.fact());
      std::this_thread::sleep_for(std::chrono::milliseconds(is_root_ ? 100 : 300));
      on_lost_.end_process(error);
      return true;
    }
    return false;
  }

  void spread(const std::string& fact) {
    const std::lock_guard lock(mutex_);
    for (Peer& p : peers_) {
      p.socket.send({{"lost", fact}});
      p.socket.finish_sending();
    }
  }

  std::string lost_by(const Peer& p, double now) const {
    if (p.over) return {};
    if (p.failed_at > 0) return now - p.failed_at > kGrace ? "failed" : "";
    if (p.socket.closed()) return "is gone";
    return now - p.last_message > heartbeat_timeout_ ? cat("gave no sign of life for ", heartbeat_timeout_, " s,") : "";
  }

  static Error lost(const std::string& fact) {
    return {Exit::distributed, "E_RANK_LOST", fact,
            "go on from the last checkpoint with `resume` auto, with as many ranks as there are"};
  }

  const bool is_root_;
  const int rank_;
  const double heartbeat_timeout_;
  const OnLost on_lost_;
  std::atomic<int64_t> step_{0};
  std::atomic<const char*> phase_{"starting"};
  std::atomic<bool> stopped_{false}, quiet_{false};
  std::mutex mutex_;  // guards the sockets
  std::vector<Peer> peers_;
  std::string reported_;
  int stop_ = 0;  // number of a stop signal that another process received; 0: none
  double asked_at_ = 0;
  bool passed_on_ = false;
  std::thread thread_;  // declared last, because the thread uses all other members
};

FailureDetector::FailureDetector(std::vector<Connected> others, int rank, double heartbeat_timeout, OnLost on_lost)
    : channel_(std::make_unique<Channel>(std::move(others), rank, heartbeat_timeout, std::move(on_lost))) {}
FailureDetector::FailureDetector(Communicator& ranks, const RankAccess& access, double heartbeat_timeout,
                                 OnLost on_lost)
    : FailureDetector(connect_ranks(ranks, access, heartbeat_timeout + kConnectSeconds), ranks.rank(),
                      heartbeat_timeout, std::move(on_lost)) {}
FailureDetector::~FailureDetector() = default;
void FailureDetector::doing(int64_t step, const char* phase) { channel_->doing(step, phase); }
void FailureDetector::failed(const std::string& why) { channel_->failed(why); }
void FailureDetector::end() { channel_->end(); }

}  // namespace amp
