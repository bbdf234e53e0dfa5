// Starts the communicator of a launched process: MPI if the launcher offers it, else TCP. A failure detector notices
// lost processes; since computing threads may wait for a message that never comes, the process ends by _exit.
#include "run/train/process_ranks.h"

#include <netinet/in.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/temporary.h"
#include "base/text.h"
#include "run/spec/distribution.h"
#include "run/train/stop.h"
#include "trainer/comm/local_rendezvous.h"
#include "trainer/comm/mpi.h"
#include "trainer/comm/sockets.h"
#include "trainer/comm/tcp.h"

namespace amp {

namespace {

// The time in seconds in which a rank must answer while ranks connect, in addition to the heartbeat.
constexpr double kAnswerSeconds = 5;
constexpr int64_t kMostTokenBytes = 4096;

using Report = std::function<void(const Error&)>;

// Ends the process. Computing threads may wait for a message that never comes, so nothing else stops them.
void end_process(const Error& e) {
  remove_temporaries();
  ::_exit(static_cast<int>(e.exit()));
}

// Limits the time until the ranks are connected. Without this limit they would wait forever for a rank that failed to
// start, if the launcher does not end the others.
class StartLimit {
 public:
  StartLimit(double seconds, const char* id, const Report& report)
      : thread_([this, seconds, id, &report] {
          std::unique_lock lock(mutex_);
          if (ended_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return over_; })) return;
          const Error e(
              Exit::distributed, id, cat("the ranks did not find each other within ", seconds, " s"),
              "another process failed at its start, or they do not reach each other; else a longer `heartbeat`");
          report(e);
          end_process(e);
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
  std::thread thread_;  // last member, because the thread uses the other members
};

}  // namespace

int free_port() { return listen_on(INADDR_LOOPBACK, 0, 1).port; }

bool launched() { return started_by_mpi() || tcp_endpoint(); }

std::string rank_token(const std::string& file) {
  if (file.empty()) {
    const char* const value = std::getenv(kRankTokenVariable);
    return value ? value : "";
  }
  std::string token(read_file_head(file, kMostTokenBytes + 1).text());
  const bool too_long = std::ssize(token) > kMostTokenBytes;
  token.erase(token.find_last_not_of("\r\n") + 1);
  if (token.empty() || too_long)
    fail(Exit::usage, "E_FLAG_VALUE",
         cat("`rank_token_file` '", printable(file), "' ",
             too_long ? cat("has more than ", kMostTokenBytes, " bytes") : std::string("has no text")),
         "write a long random text into it, such as that of: openssl rand -hex 32");
  return token;
}

std::string random_rank_token() { return shared_secret(); }

Processes::Processes(const DistributionSpec& spec, Log log, std::function<void(const Error&)> report) {
  const double heartbeat = spec.heartbeat;
  const double connect_timeout = 20 * heartbeat, heartbeat_timeout = heartbeat + kAnswerSeconds;
  const bool mpi = started_by_mpi() && !started_by_torchrun();
  const RankAccess access{launched() ? rank_token(spec.rank_token_file) : "", std::move(log)};
  const auto watched = [&](bool leads) {
    return FailureDetector::OnLost{report, end_process, [leads](int signal) { ImmediateStop::obey(signal, !leads); }};
  };
  if (!mpi) {
    const std::optional<TcpEndpoint> place = tcp_endpoint();
    if (!place) return;
    // The error of connect_tcp() lists the missing ranks after connect_timeout.
    tcp_ = connect_tcp(*place, access, connect_timeout, heartbeat);
    ranks_ = tcp_.get();
  } else if (const std::optional<LocalEndpoint> place = local_endpoint()) {
    failure_detector_.emplace(rendezvous_on_this_machine(*place, access, heartbeat_timeout), place->rank, heartbeat,
                              watched(place->rank == 0));
    ImmediateStop::launched();
  }
  if (mpi) {
    const StartLimit limit(connect_timeout, "E_MPI", report);
    ranks_ = &start_mpi();
  }
  if (ranks_->size() == 1) return;
  if (!failure_detector_) {
    const StartLimit limit(2 * heartbeat_timeout, "E_RANKS", report);
    failure_detector_.emplace(*ranks_, access, heartbeat, watched(ranks_->is_root()));
    ImmediateStop::launched();
  }
  ranks_->when_lost([this, report](const Error& e) {
    failed(e);
    report(e);
    end_process(e);
  });
}

Processes::~Processes() = default;

void Processes::doing(int64_t step, const char* phase) {
  if (failure_detector_) failure_detector_->doing(step, phase);
}

void Processes::failed(const std::exception& e) {
  if (!failure_detector_) return;
  const auto* const known = dynamic_cast<const Error*>(&e);
  // If a rank was lost, the failure detector will soon report which rank it was and why, and end this process.
  if (known && known->id() == "E_RANK_LOST") std::this_thread::sleep_for(std::chrono::seconds(2));
  failure_detector_->failed(known ? cat(known->id(), ": ", known->fact()) : e.what());
}

void Processes::end() {
  const auto part = [this] {
    if (failure_detector_) failure_detector_->end();
  };
  if (!tcp_) return end_mpi(part);
  tcp_->barrier();
  part();
}

}  // namespace amp
