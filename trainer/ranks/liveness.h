// Whether the processes of a run live. A process that waits in a collective for one that is gone, or stopped, waits for
// ever, whatever MPI does; so there is a channel of TCP connections beside it: every process tells the first one twice
// a second that it lives and what it is doing, the first one tells all of them.
//
// A connection that closes, or a heartbeat that stays out, loses the run for all: one of the others tells it, by an
// Error that names the rank, its host and process, what it was doing and its last error; then all of them leave.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "trainer/collective.h"
#include "trainer/ranks/connections.h"

namespace amp {

class Liveness {
 public:
  // Called on a thread of the channel, with E_RANK_LOST (exit 10): tell in one process, leave in each. stop: another
  // process was asked to stop by that signal where no step is to be finished (ImmediateStop); it ends, and so do all.
  struct OnLost {
    std::function<void(const Error&)> tell, leave;
    std::function<void(int signal)> stop = {};
  };

  // The connections of connect_ranks() or meet_in_lobby(). silence: seconds without a heartbeat that are too many, > 0.
  Liveness(std::vector<Connected> others, int rank, double silence, OnLost on_lost);
  // Called by all ranks together. Throws E_RANK_LOST where a rank cannot be reached.
  Liveness(Collective& ranks, double silence, OnLost on_lost);
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;
  ~Liveness();

  void doing(int64_t step, const char* phase);  // this process, from now on; phase: a literal
  // This process ends because of that. The others give its reason; nothing that happens to them is told here any more.
  void failed(const std::string& why);
  // Once no rank needs another one: what happens to them from here on is not told. By all ranks together.
  void end();

 private:
  class Channel;
  std::unique_ptr<Channel> channel_;
};

}  // namespace amp
