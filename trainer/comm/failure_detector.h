// Detects lost processes of a run. A collective with MPI would wait forever for a process that died or was stopped.
// Therefore every process has a separate TCP connection to rank 0. Twice a second both processes send each other a
// heartbeat with their current step and phase. Rank 0 reports a lost rank to all other ranks.
//
// A closed connection or missed heartbeats end the run for all processes. One of them reports an Error that names the
// rank, its host and process, its phase and its last error. Then all of them exit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/connections.h"

namespace amp {

class FailureDetector {
 public:
  // Callbacks on the detector's thread. After a loss, `report` is called with E_RANK_LOST (exit 10) in one process, and
  // then `end_process` in each. `stop` is called if another process received that signal while no step was running
  // (ImmediateStop), so that all processes end.
  struct OnLost {
    std::function<void(const Error&)> report, end_process;
    std::function<void(int signal)> stop = {};
  };

  // others: the result of connect_ranks() or rendezvous_on_this_machine(). heartbeat_timeout: seconds, > 0.
  FailureDetector(std::vector<Connected> others, int rank, double heartbeat_timeout, OnLost on_lost);
  // Collective. Throws the errors of connect_ranks().
  FailureDetector(Communicator& ranks, const RankAccess& access, double heartbeat_timeout, OnLost on_lost);
  FailureDetector(const FailureDetector&) = delete;
  FailureDetector& operator=(const FailureDetector&) = delete;
  ~FailureDetector();

  void doing(int64_t step, const char* phase);  // sets this process's phase, a string literal
  // Declares that this process ends because of `why`. The other processes report `why`; this process reports no lost
  // rank from now on.
  void failed(const std::string& why);
  // Collective. Declares the end of the run, after which lost ranks are not reported.
  void end();

 private:
  class Channel;
  std::unique_ptr<Channel> channel_;
};

}  // namespace amp
