// Stop requests: SIGINT, SIGTERM, SIGHUP. Where a step must be finished and a checkpoint written (StopSignals) the
// first one sets a flag that the loop polls, a second one ends the process at once. Everywhere else (ImmediateStop) the
// first one does: temporary files are removed, the last line of stderr is the JSON object of an error, the exit code
// 128 + the signal's number, or 75 once a checkpoint holds all that was done.
//
// Copies of the first signal do not count as a second: timeout(1), mpirun and terminals deliver a request to the
// process and again to its group, microseconds apart. A signal that is ignored when the program starts (nohup) stays
// so.
#pragma once

#include <signal.h>

#include <string>
#include <vector>

namespace amp {

class StopSignals {
 public:
  static constexpr long kEchoMilliseconds = 50;  // within these a further signal is the first one's copy

  explicit StopSignals(std::vector<int> signals = {SIGINT, SIGTERM, SIGHUP});  // one object at a time
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();  // the former handlers are back

  bool requested() const { return signal() != 0; }
  int signal() const;  // the first signal's number; 0: none came

 private:
  std::vector<int> signals_;
  std::vector<struct sigaction> former_;
};

// For main(), before anything else; a StopSignals inside its life takes over for as long as that lives. Also makes
// writing into a closed pipe and beyond a file size limit errors that are told, instead of deaths.
class ImmediateStop {
 public:
  ImmediateStop();
  ImmediateStop(const ImmediateStop&) = delete;
  ImmediateStop& operator=(const ImmediateStop&) = delete;

  // This process is one of several: there is a moment before a signal is obeyed. A launcher ends them all by SIGTERM
  // once one is lost, which is to be told; and the others are to be told of a signal that this one alone was given.
  static void launched();
  static int asked();  // the signal that will be obeyed; 0: none came
  // Ends the process as that signal would; quietly: another one says it.
  [[noreturn]] static void obey(int signal, bool quietly);
  // From now on all that was done lies in a checkpoint: the exit code is 75, and the hint says how to go on.
  static void durable();
};

// What a process that is stopped by a signal says: "error: stopped by SIGINT ...", then the JSON line. Signal 0 is
// --max_minutes.
std::string signal_name(int signal);         // "SIGTERM"; empty: there is no such signal
void say_stopped(int signal, bool durable);  // async-signal-safe
int stopped_exit(int signal, bool durable);

}  // namespace amp
