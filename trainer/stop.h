// Stop requests: the first SIGINT or SIGTERM sets a flag that the loop polls (it finishes the step, saves, exits 75), a
// second one ends the process at once with 128 + its number.
//
// Copies of the first signal do not count as a second: timeout(1), mpirun and terminals deliver a request to the
// process and again to its group, microseconds apart.
#pragma once

#include <signal.h>

#include <string>
#include <vector>

namespace amp {

class StopSignals {
 public:
  static constexpr long kEchoMilliseconds = 50;  // within these a further signal is the first one's copy

  explicit StopSignals(std::vector<int> signals = {SIGINT, SIGTERM});  // one object at a time
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();  // the former handlers are back

  bool requested() const { return signal() != 0; }
  int signal() const;        // the first signal's number; 0: none came
  std::string name() const;  // "SIGTERM"; empty: none came

 private:
  std::vector<int> signals_;
  std::vector<struct sigaction> former_;
};

}  // namespace amp
