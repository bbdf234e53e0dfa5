// Stop requests: the signals of kStopSignals. During training (StopSignals) the first signal sets a flag that the loop
// polls. The loop then finishes the step and writes a checkpoint. A second signal ends the process at once. At any
// other time (ImmediateStop) the first signal ends the process: it removes temporary files and writes the JSON object
// of an error as the last line of stderr. The exit code is 128 + the signal's number, or 75 if a checkpoint contains
// all completed work.
//
// Copies of the first signal do not count as a second one: timeout(1), mpirun and terminals signal the process and then
// its group, microseconds apart. SIGXCPU never counts as a second one, because the kernel repeats it every second. A
// signal that is ignored when the program starts (nohup) stays ignored.
#pragma once

#include <signal.h>

#include <array>
#include <string>
#include <vector>

namespace amp {

// Sent by Ctrl-C, kill, a closed terminal, "Ctrl-\", batch systems ahead of their time limit (SIGUSR1, SIGUSR2), and
// the kernel at the soft limit of CPU time (SIGXCPU).
inline constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU};

class StopSignals {
 public:
  static constexpr long kEchoMilliseconds = 50;  // a further signal within this time is a copy of the first

  // Only one object may exist at a time, except objects without signals, which change nothing in the process.
  explicit StopSignals(std::vector<int> signals = {kStopSignals.begin(), kStopSignals.end()});
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();  // restores the previous handlers

  bool requested() const { return signal() != 0; }
  int signal() const;  // the first signal's number; 0: none was received, or this object has no signals

 private:
  const bool installed_;
  std::vector<int> signals_;
  std::vector<struct sigaction> former_;
};

// Constructed by main() before anything else. A StopSignals replaces its handlers while it exists. Also turns SIGPIPE
// and SIGXFSZ (closed pipe, file size limit) into error codes of write(). If the soft and the hard limit of CPU time
// are equal (`ulimit -t` sets both), lowers the soft one, because at the hard one the kernel kills without SIGXCPU.
class ImmediateStop {
 public:
  // resume_hint: what the message of a signal says if a checkpoint contains all completed work; must outlive the
  // process's handlers.
  explicit ImmediateStop(const char* resume_hint = "continue with `resume` auto");
  ImmediateStop(const ImmediateStop&) = delete;
  ImmediateStop& operator=(const ImmediateStop&) = delete;

  // Declares that this process is one of several ranks: it then delays the reaction to a signal. A launcher sends
  // SIGTERM to all ranks when one is lost, and the delay leaves time to report the lost rank. It also leaves time to
  // notify the other ranks of a signal that only this process received.
  static void launched();
  static int asked();  // the received signal that will end the process; 0: none
  // Ends the process as `signal` would. quietly: without the message, because another rank prints it.
  [[noreturn]] static void obey(int signal, bool quietly);
  // Declares that a checkpoint contains all completed work: the exit code is 75, and the hint explains how to continue.
  static void durable();
};

std::string signal_name(int signal);  // "SIGTERM"; empty: there is no such signal
// Prints the message of a process that a signal ended: "error: stopped by SIGINT ...", then the JSON line.
// Async-signal-safe.
void log_stopped(int signal, bool durable);
int stopped_exit(int signal, bool durable);

}  // namespace amp
