#include "run/process_ranks.h"

#include <netinet/in.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/temporary.h"
#include "run/stop.h"
#include "trainer/ranks/lobby.h"
#include "trainer/ranks/mpi.h"
#include "trainer/ranks/sockets.h"
#include "trainer/ranks/tcp.h"

namespace amp {

namespace {

constexpr double kAnswerSeconds = 5;  // beyond a heartbeat's silence

using Tell = std::function<void(const Error&)>;

// The threads that compute may wait for what never comes: nothing but the process's end stops them.
void leave(const Error& e) {
  remove_temporaries();
  ::_exit(static_cast<int>(e.exit()));
}

// Until the ranks are connected, they wait for each other without an end where one is gone, or stopped, and its
// launcher lets the others be.
class StartLimit {
 public:
  StartLimit(double seconds, const char* id, const Tell& tell)
      : thread_([this, seconds, id, &tell] {
          std::unique_lock lock(mutex_);
          if (ended_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return over_; })) return;
          const Error e(
              Exit::distributed, id, cat("the ranks did not find each other within ", seconds, " s"),
              "another process failed at its start, or they do not reach each other; else a longer --heartbeat");
          tell(e);
          leave(e);
        }) {}
  StartLimit(const StartLimit&) = delete;
  StartLimit& operator=(const StartLimit&) = delete;
  ~StartLimit() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace

int free_port() { return listen_on(INADDR_LOOPBACK, 0, 1).port; }

bool launched() { return started_by_mpi() || tcp_place(); }

Processes::Processes(double heartbeat, std::function<void(const Error&)> tell) {
  const double patience = 20 * heartbeat, silence = heartbeat + kAnswerSeconds;
  const bool mpi = started_by_mpi() && !started_by_torchrun();
  const auto watched = [&](bool leads) {
    return Liveness::OnLost{tell, leave, [leads](int signal) { ImmediateStop::obey(signal, !leads); }};
  };
  if (!mpi) {
    const std::optional<TcpPlace> place = tcp_place();
    if (!place) return;
    tcp_ = connect_tcp(*place, patience, heartbeat);  // knows who is missing, and says so after its patience
    ranks_ = tcp_.get();
  } else if (const std::optional<LobbyPlace> place = lobby_place()) {
    liveness_.emplace(meet_in_lobby(*place, silence), place->rank, heartbeat, watched(place->rank == 0));
    ImmediateStop::launched();
  }
  if (mpi) {
    const StartLimit limit(patience, "E_MPI", tell);
    ranks_ = &start_mpi();
  }
  if (ranks_->alone()) return;
  if (!liveness_) {
    const StartLimit limit(2 * silence, "E_RANKS", tell);
    liveness_.emplace(*ranks_, heartbeat, watched(ranks_->leads()));
    ImmediateStop::launched();
  }
  ranks_->when_lost([this, tell](const Error& e) {
    failed(e);
    tell(e);
    leave(e);
  });
}

Processes::~Processes() = default;

void Processes::doing(int64_t step, const char* phase) {
  if (liveness_) liveness_->doing(step, phase);
}

void Processes::failed(const std::exception& e) {
  if (!liveness_) return;
  const auto* const known = dynamic_cast<const Error*>(&e);
  // Where a message was lost first, the channel is about to say who is gone and why, and to end this process.
  if (known && known->id() == "E_RANK_LOST") std::this_thread::sleep_for(std::chrono::seconds(2));
  liveness_->failed(known ? cat(known->id(), ": ", known->fact()) : e.what());
}

void Processes::end() {
  const auto part = [this] {
    if (liveness_) liveness_->end();
  };
  if (!tcp_) return end_mpi(part);
  tcp_->barrier();
  part();
}

}  // namespace amp
